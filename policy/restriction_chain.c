#include "policy/restriction_chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "documents/format/officers.h"
#include "documents/format/restriction.h"
#include "documents/format/signing_key.h"
#include "policy/no_memory_priv.h"

struct held_key {
    char name[ECDSA_THUMBPRINT_SIZE];
    uint8_t point[ECDSA_PUBLIC_SIZE], owner[DOCUMENT_DIGEST_SIZE];
    int64_t end_ms;
    bool is_withdrawn;
};

/* The newest version of an officer's document. */
struct appointed {
    char name[DOCUMENT_NAME_SIZE], key[ECDSA_THUMBPRINT_SIZE];
    uint8_t owner[DOCUMENT_DIGEST_SIZE];
    uint64_t version;
    int64_t end_ms;
    unsigned number; /* of persons */
    bool is_here;    /* a security officer of the organisation */
};

struct restriction_chain {
    char organisation[DOCUMENT_SCOPE_SIZE];
    uint64_t sequence; /* of the last link */
    bool has_links;
    size_t key_count, officer_count, count, refused;
    struct error why;
    struct held_key keys[RESTRICTION_CHAIN_MAX];
    struct appointed officers[RESTRICTION_CHAIN_MAX];
    struct restriction_proven each[RESTRICTION_CHAIN_MAX];
    struct document *documents[RESTRICTION_CHAIN_MAX];
};

struct result restriction_chain_new(const char *organisation, struct restriction_chain **chain_out, struct error *err)
{
    struct restriction_chain *chain = memory_zeroed(1, sizeof *chain);

    if (chain == NULL) return policy_no_memory(err);
    (void)snprintf(chain->organisation, sizeof chain->organisation, "%s", organisation);
    *chain_out = chain;
    return SUCCESS;
}

void restriction_chain_free(struct restriction_chain *chain)
{
    if (chain == NULL) return;
    for (size_t i = 0; i < chain->count; i++) document_free(chain->documents[i]);
    free(chain);
}

static struct result too_many(struct error *err)
{
    return failure(err, ERROR_LIMIT, "more than %d restrictions, officers or keys of an organisation", RESTRICTION_CHAIN_MAX);
}

/* What is refused changes nothing. Only what stops the program ends the chain. */
static struct result pass(struct restriction_chain *chain, const struct error *why, struct error *err)
{
    if (why->kind == ERROR_NO_MEMORY || why->kind == ERROR_LIMIT) return failure(err, why->kind, "%s", why->message);
    if (chain->refused++ == 0) chain->why = *why;
    return SUCCESS;
}

/* ---- keys ---- */

static struct held_key *find_key(struct restriction_chain *chain, const char *name)
{
    for (size_t i = 0; i < chain->key_count; i++)
        if (strcmp(chain->keys[i].name, name) == 0) return &chain->keys[i];
    return NULL;
}

/* A withdrawn key stays so, and one that has not ended stays its owner's. */
static struct result take_key(struct restriction_chain *chain, const struct document *document,
                              const struct document_trust *trust, struct error *err)
{
    struct held_key taken = {.end_ms = document->expires_ms, .is_withdrawn = document->is_withdrawn};
    struct held_key *known = find_key(chain, document->name);
    struct signing_key key;

    TRY(document_check(document, trust, err));
    TRY(signing_key_read(document, &key, err));
    (void)snprintf(taken.name, sizeof taken.name, "%.*s", (int)sizeof taken.name - 1, document->name);
    memcpy(taken.point, key.point, sizeof taken.point);
    sha256_of(bytes_of_text(key.principal), taken.owner);
    if (known != NULL && known->is_withdrawn) return failure(err, ERROR_DENIED, "the key %.43s was withdrawn", taken.name);
    if (known != NULL && !taken.is_withdrawn && known->end_ms > trust->now_ms &&
        memcmp(known->owner, taken.owner, sizeof taken.owner) != 0)
        return failure(err, ERROR_DENIED, "the key %.43s is another person's", taken.name);
    if (known == NULL && chain->key_count == RESTRICTION_CHAIN_MAX) return too_many(err);
    if (known == NULL) known = &chain->keys[chain->key_count++];
    *known = taken;
    return SUCCESS;
}

static const struct held_key *held_by(struct restriction_chain *chain, const struct appointed *officer, int64_t now_ms)
{
    const struct held_key *key = find_key(chain, officer->key);

    if (key == NULL || key->is_withdrawn || key->end_ms <= now_ms) return NULL;
    return memcmp(key->owner, officer->owner, sizeof key->owner) == 0 ? key : NULL;
}

/* ---- officers ---- */

static struct appointed *find_officer(struct restriction_chain *chain, const char *name)
{
    for (size_t i = 0; i < chain->officer_count; i++)
        if (strcmp(chain->officers[i].name, name) == 0) return &chain->officers[i];
    return NULL;
}

static struct result read_officer(struct restriction_chain *chain, const struct document *document,
                                  const struct document_trust *trust, struct appointed *read, struct error *err)
{
    struct officer officer;

    if (document->is_withdrawn) return SUCCESS;
    TRY(officer_read(document, &officer, err));
    (void)snprintf(read->key, sizeof read->key, "%.*s", (int)sizeof read->key - 1, officer.key);
    sha256_of(bytes_of_text(officer.principal), read->owner);
    read->number = officer.restrictions;
    read->is_here = strcmp(officer.on, chain->organisation) == 0 && strcmp(officer.role, RESTRICTION_ROLE) == 0;
    if (!read->is_here || held_by(chain, read, trust->now_ms) != NULL) return SUCCESS;
    return failure(err, ERROR_DENIED, "the document %.63s names a key that is not its officer's", document->name);
}

static struct result take_officer(struct restriction_chain *chain, const struct document *document,
                                  const struct document_trust *trust, struct error *err)
{
    struct appointed read = {.version = document->version, .end_ms = document->expires_ms};
    struct appointed *known = find_officer(chain, document->name);

    (void)snprintf(read.name, sizeof read.name, "%s", document->name);
    TRY(document_check(document, trust, err));
    TRY(read_officer(chain, document, trust, &read, err));
    if (known != NULL && document->version <= known->version)
        return failure(err, ERROR_DENIED, "the document %.63s is older than the one before it", document->name);
    if (known == NULL && chain->officer_count == RESTRICTION_CHAIN_MAX) return too_many(err);
    if (known == NULL) known = &chain->officers[chain->officer_count++];
    *known = read;
    return SUCCESS;
}

/* The number stays as long as the document, whether its key counts or not. */
static void find_officers(struct restriction_chain *chain, int64_t now_ms, struct restriction_officers *found_out,
                          const struct appointed *who[RESTRICTION_OFFICERS_MAX])
{
    *found_out = (struct restriction_officers){.number = 1};
    for (size_t i = 0; i < chain->officer_count; i++) {
        const struct appointed *officer = &chain->officers[i];
        if (!officer->is_here || officer->end_ms <= now_ms) continue;
        if (officer->number > found_out->number) found_out->number = officer->number;
        const struct held_key *key = held_by(chain, officer, now_ms);
        if (key == NULL || found_out->count == RESTRICTION_OFFICERS_MAX) continue;
        struct restriction_officer *added = &found_out->each[found_out->count];
        memcpy(added->point, key->point, sizeof added->point);
        memcpy(added->principal, officer->owner, sizeof added->principal);
        who[found_out->count++] = officer;
    }
}

/* ---- restrictions ---- */

static struct restriction_proven *find_newest(struct restriction_chain *chain, const char *name)
{
    for (size_t i = chain->count; i > 0; i--)
        if (strcmp(chain->each[i - 1].document->name, name) == 0) return &chain->each[i - 1];
    return NULL;
}

static struct result name_signers(const struct restriction_officers *officers,
                                  const struct appointed *const who[RESTRICTION_OFFICERS_MAX], const struct document *document,
                                  struct restriction_proven *proven, struct error *err)
{
    for (size_t i = 0; i < officers->count && proven->signer_count < DOCUMENT_SIGNATURES_MAX; i++) {
        bool has_signed = false;
        TRY(document_is_signed_by(document, officers->each[i].point, &has_signed, err));
        if (has_signed)
            (void)snprintf(proven->signers[proven->signer_count++], DOCUMENT_NAME_SIZE, "%.*s", DOCUMENT_NAME_SIZE - 1,
                           who[i]->name);
    }
    return SUCCESS;
}

/* Of a later version whose first one is not here nobody knows that it is the first: it takes one person more, as any other. */
static struct result check_restriction(struct restriction_chain *chain, const struct document *document,
                                       const struct document_trust *trust, struct restriction_proven *proven, struct error *err)
{
    const struct restriction_proven *before = find_newest(chain, document->name);
    const struct appointed *who[RESTRICTION_OFFICERS_MAX];
    struct restriction_officers officers;

    proven->is_first = before == NULL && document->version == 1;
    if (before != NULL && document->version <= before->document->version)
        return failure(err, ERROR_DENIED, "version %" PRIu64 " of the restriction %.63s is older than the one before it",
                       document->version, document->name);
    TRY(document_check(document, trust, err));
    find_officers(chain, trust->now_ms, &officers, who);
    TRY(restriction_check_signers(document, &officers, proven->is_first, err));
    TRY(restriction_count(document, &officers, &proven->persons, err));
    proven->needed = restriction_needs(document, &officers, proven->is_first);
    return name_signers(&officers, who, document, proven, err);
}

/* Takes the document. */
static struct result take_restriction(struct restriction_chain *chain, struct document **document,
                                      const struct set_chain_link *link, const struct document_trust *trust, struct error *err)
{
    struct restriction_proven proven = {.document = *document, .sequence = link->sequence, .time_ms = link->time_ms};
    struct restriction_proven *before = find_newest(chain, (*document)->name);

    if (strcmp((*document)->scope, chain->organisation) != 0)
        return failure(err, ERROR_DENIED, "the restriction %.63s is of another organisation", (*document)->name);
    if (chain->count == RESTRICTION_CHAIN_MAX) return too_many(err);
    TRY(check_restriction(chain, *document, trust, &proven, err));
    if (before != NULL) before->until = link->sequence;
    chain->documents[chain->count] = GIVE(*document);
    chain->each[chain->count++] = proven;
    return SUCCESS;
}

/* ---- links ---- */

static struct result follow_key(const struct set_chain_link *link, struct set_chain *sets, struct document_trust *trust,
                                struct error *err)
{
    if (set_chain_trust(sets, link->time_ms, trust) == link->sequence) return SUCCESS;
    TRY(set_chain_add(sets, link, err));
    (void)set_chain_trust(sets, link->time_ms, trust);
    return SUCCESS;
}

static struct result check_link(const struct restriction_chain *chain, const struct set_chain_link *link,
                                const struct document *document, struct error *err)
{
    if (chain->has_links && link->sequence <= chain->sequence)
        return failure(err, ERROR_DENIED, "the documents of the organisation are not in the order of their events");
    return link->entry.length == 0 ? SUCCESS : document_check_event(document, link->entry, link->sequence, err);
}

static struct result take(struct restriction_chain *chain, struct document **document, const struct set_chain_link *link,
                          const struct document_trust *trust, struct error *err)
{
    const enum document_kind kind = (*document)->kind;

    if (kind == DOCUMENT_SIGNING_KEY) return take_key(chain, *document, trust, err);
    return kind == DOCUMENT_OFFICERS ? take_officer(chain, *document, trust, err)
                                     : take_restriction(chain, document, link, trust, err);
}

static bool says_who_signs(const struct document *document)
{
    return document->kind == DOCUMENT_SIGNING_KEY || document->kind == DOCUMENT_OFFICERS ||
           document->kind == DOCUMENT_RESTRICTION;
}

struct result restriction_chain_add(struct restriction_chain *chain, const struct set_chain_link *link, struct set_chain *sets,
                                    struct error *err)
{
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error refused = {0};

    TRY(document_read(link->envelopes, link->count, &document, err));
    if (!says_who_signs(document))
        return failure(err, ERROR_INVALID, "only keys, officers and restrictions say who has signed a restriction");
    TRY(check_link(chain, link, document, err));
    if (document->kind == DOCUMENT_SIGNING_KEY) TRY(follow_key(link, sets, &trust, err));
    else (void)set_chain_trust(sets, link->time_ms, &trust);
    chain->sequence = link->sequence;
    chain->has_links = true;
    return take(chain, &document, link, &trust, &refused).ok ? SUCCESS : pass(chain, &refused, err);
}

/* ---- what is proven ---- */

const char *restriction_chain_organisation(const struct restriction_chain *chain)
{
    return chain->organisation;
}

size_t restriction_chain_count(const struct restriction_chain *chain)
{
    return chain->count;
}

const struct restriction_proven *restriction_chain_at(const struct restriction_chain *chain, size_t index)
{
    return &chain->each[index];
}

bool restriction_is_in_force(const struct restriction_proven *proven)
{
    return proven->until == 0 && !proven->document->is_withdrawn;
}

size_t restriction_chain_refused(const struct restriction_chain *chain, const char **why_out)
{
    *why_out = chain->why.message;
    return chain->refused;
}

struct result restriction_chain_policies(const struct restriction_chain *chain, json_t **policies_out, struct error *err)
{
    OWNED_JSON policies = json_array();

    if (policies == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < chain->count; i++) {
        const json_t *body = json_object_get(chain->each[i].document->json, "body");
        if (restriction_is_in_force(&chain->each[i]) && json_array_append(policies, json_object_get(body, "policy")) != 0)
            return policy_no_memory(err);
    }
    *policies_out = GIVE(policies);
    return SUCCESS;
}
