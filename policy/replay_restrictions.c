#include "policy/replay_restrictions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "documents/format/restriction.h"
#include "policy/compiled_priv.h"
#include "policy/no_memory_priv.h"
#include "policy/restriction.h"

struct known {
    char organisation[DOCUMENT_SCOPE_SIZE], name[DOCUMENT_NAME_SIZE];
    char document[DIGEST_TEXT_SIZE]; /* digest of the document, as the event has it */
    char policy[SHA_TEXT_SIZE];      /* digest of the policy, as facts have it; "": a withdrawal */
    json_t *json;                    /* of the policy */
    uint64_t version;                /* of the document */
    uint64_t from, until;            /* numbers of events; 0: not seen */
    bool is_proven;                  /* the numbers are those of its proof, and the log need not tell them */
    char doubt[DIGEST_TEXT_SIZE];    /* a later document of the organisation that is not at hand: it may have ended this one */
};

struct replay_restrictions {
    size_t count;
    struct known each[REPLAY_RESTRICTIONS_MAX];
    struct policy_documents *joined; /* the answer to the last question */
    const struct policy_set *set;
    json_t *digests;
};

struct result replay_restrictions_new(struct replay_restrictions **restrictions_out, struct error *err)
{
    *restrictions_out = memory_zeroed(1, sizeof **restrictions_out);
    return *restrictions_out == NULL ? policy_no_memory(err) : SUCCESS;
}

static void forget_joined(struct replay_restrictions *restrictions)
{
    policy_documents_free(restrictions->joined);
    json_decref(restrictions->digests);
    restrictions->joined = NULL;
    restrictions->digests = NULL;
}

void replay_restrictions_free(struct replay_restrictions *restrictions)
{
    if (restrictions == NULL) return;
    forget_joined(restrictions);
    for (size_t i = 0; i < restrictions->count; i++) json_decref(restrictions->each[i].json);
    free(restrictions);
}

static struct result read_policy(const struct document *document, struct known *known, struct error *err)
{
    OWNED(policy_document) *compiled = NULL;
    const json_t *policy = NULL;

    if (document->is_withdrawn) return SUCCESS;
    TRY(restriction_read(document, &policy, err));
    TRY(policy_document_new((json_t *)(uintptr_t)policy, &compiled, err));
    (void)snprintf(known->policy, sizeof known->policy, "%s", policy_document_digest(compiled));
    known->json = json_incref((json_t *)(uintptr_t)policy);
    return SUCCESS;
}

static struct known *find_known(struct replay_restrictions *restrictions, const char *document)
{
    for (size_t i = 0; i < restrictions->count; i++)
        if (strcmp(restrictions->each[i].document, document) == 0) return &restrictions->each[i];
    return NULL;
}

struct result replay_restrictions_add(struct replay_restrictions *restrictions, const struct document *document,
                                      struct error *err)
{
    struct digest digest = {.algorithm = DIGEST_SHA256};
    char name[DIGEST_TEXT_SIZE];

    if (document->kind != DOCUMENT_RESTRICTION) return failure(err, ERROR_INVALID, "this is no restriction of an organisation");
    memcpy(digest.bytes, document->digest, sizeof document->digest);
    digest_format(&digest, name);
    if (find_known(restrictions, name) != NULL) return SUCCESS;
    if (restrictions->count == REPLAY_RESTRICTIONS_MAX)
        return failure(err, ERROR_LIMIT, "at most %d restrictions", REPLAY_RESTRICTIONS_MAX);
    struct known *known = &restrictions->each[restrictions->count];
    *known = (struct known){.from = 0};
    TRY(read_policy(document, known, err));
    (void)snprintf(known->organisation, sizeof known->organisation, "%s", document->scope);
    (void)snprintf(known->name, sizeof known->name, "%s", document->name);
    known->version = document->version;
    memcpy(known->document, name, sizeof known->document);
    restrictions->count++;
    return SUCCESS;
}

/* Of several files the one that knows its end counts. */
struct result replay_restrictions_add_proven(struct replay_restrictions *restrictions, const struct restriction_proven *proven,
                                             struct error *err)
{
    struct digest digest = {.algorithm = DIGEST_SHA256};
    char name[DIGEST_TEXT_SIZE];

    TRY(replay_restrictions_add(restrictions, proven->document, err));
    memcpy(digest.bytes, proven->document->digest, sizeof proven->document->digest);
    digest_format(&digest, name);
    struct known *known = find_known(restrictions, name);
    known->is_proven = true;
    known->from = proven->sequence;
    if (proven->until != 0) known->until = proven->until;
    return SUCCESS;
}

/* "acme#sha256:ENVELOPES VERSION sha256:DOCUMENT" */
static const char *find_document(const struct leaf *leaf)
{
    const char *action = leaf->targets[0].action, *at = strrchr(leaf->targets[0].resource, ' ');

    if (strcmp(leaf->outcome, "allowed") != 0 || at == NULL) return NULL;
    return strcmp(action, "restriction.approve") == 0 || strcmp(action, "restriction.revoke") == 0 ? at + 1 : NULL;
}

bool replay_restriction_is_noted(const struct leaf *leaf)
{
    return find_document(leaf) != NULL;
}

uint64_t replay_restrictions_first(const struct replay_restrictions *restrictions)
{
    uint64_t first = 0;

    for (size_t i = 0; restrictions != NULL && i < restrictions->count; i++) {
        const struct known *known = &restrictions->each[i];
        if (known->is_proven && (first == 0 || known->from < first)) first = known->from;
    }
    return first;
}

/* The name of the document is not in the event: any restriction of the organisation may be meant. */
static void note_unknown(struct replay_restrictions *restrictions, const struct leaf *leaf, const char *document)
{
    const char *organisation = leaf->targets[0].resource;
    const size_t length = strcspn(organisation, "#");

    for (size_t i = 0; i < restrictions->count; i++) {
        struct known *known = &restrictions->each[i];
        if (known->from != 0 && known->from < leaf->sequence && known->until == 0 &&
            strncmp(known->organisation, organisation, length) == 0 && known->organisation[length] == '\0')
            (void)snprintf(known->doubt, sizeof known->doubt, "%s", document);
    }
}

void replay_restrictions_note(struct replay_restrictions *restrictions, const struct leaf *leaf)
{
    const char *document = restrictions == NULL ? NULL : find_document(leaf);

    if (document == NULL) return;
    struct known *found = find_known(restrictions, document);
    if (found == NULL) {
        note_unknown(restrictions, leaf, document);
        return;
    }
    found->from = leaf->sequence;
    for (size_t i = 0; i < restrictions->count; i++) {
        struct known *other = &restrictions->each[i];
        if (other->version < found->version && other->until == 0 && strcmp(other->organisation, found->organisation) == 0 &&
            strcmp(other->name, found->name) == 0)
            other->until = leaf->sequence;
    }
}

/* ---- one decision ---- */

static bool is_in_force(const struct known *known, uint64_t sequence)
{
    if (!known->is_proven) return known->from != 0 && known->until == 0;
    return known->from < sequence && (known->until == 0 || sequence < known->until);
}

static bool has_ended(const struct known *known, uint64_t sequence)
{
    return known->until != 0 && (!known->is_proven || known->until < sequence);
}

/* A later version may say again what an earlier one has said. */
static bool is_said_again(const struct replay_restrictions *restrictions, const struct known *ended, uint64_t sequence)
{
    for (size_t i = 0; i < restrictions->count; i++)
        if (is_in_force(&restrictions->each[i], sequence) && strcmp(restrictions->each[i].policy, ended->policy) == 0)
            return true;
    return false;
}

static bool is_named(const json_t *digests, const char *policy)
{
    for (size_t i = 0; i < json_array_size(digests); i++)
        if (strcmp(json_string_value(json_array_get(digests, i)), policy) == 0) return true;
    return false;
}

static bool is_of(const struct known *known, const char *scope)
{
    const size_t length = strlen(known->organisation);

    return strncmp(known->organisation, scope, length) == 0 && scope[length] == '/';
}

/* What the log has said so far: a restriction that is in force, and that the facts leave out; or one that has ended. */
static struct result check_left_out(const struct known *known, struct error *err)
{
    if (known->doubt[0] != '\0') return failure(err, ERROR_NOT_FOUND, "the restriction %.71s is not at hand", known->doubt);
    return failure(err, ERROR_DENIED, "it was decided without the restriction %.63s, which event %" PRIu64 " brought into force",
                   known->name, known->from);
}

static struct result check_age(const struct replay_restrictions *restrictions, const struct replay_restrictions_query *query,
                               struct error *err)
{
    for (size_t i = 0; i < restrictions->count && query->is_decided_now; i++) {
        const struct known *known = &restrictions->each[i];
        if (known->policy[0] == '\0' || !is_of(known, query->scope)) continue;
        const bool is_there = is_named(query->digests, known->policy);
        if (is_in_force(known, query->sequence) && !is_there) return check_left_out(known, err);
        if (has_ended(known, query->sequence) && is_there && !is_said_again(restrictions, known, query->sequence))
            return failure(err, ERROR_DENIED,
                           "it was decided with a version of the restriction %.63s that event %" PRIu64 " has ended", known->name,
                           known->until);
    }
    return SUCCESS;
}

static const struct known *find(const struct replay_restrictions *restrictions, const char *digest, const char *scope)
{
    for (size_t i = 0; restrictions != NULL && i < restrictions->count; i++)
        if (strcmp(restrictions->each[i].policy, digest) == 0 && is_of(&restrictions->each[i], scope))
            return &restrictions->each[i];
    return NULL;
}

static struct result gather(const struct replay_restrictions *restrictions, const struct replay_restrictions_query *query,
                            json_t *policies, struct error *err)
{
    for (size_t i = 0; i < json_array_size(query->digests); i++) {
        const char *digest = json_string_value(json_array_get(query->digests, i));
        const struct known *known = find(restrictions, digest, query->scope);
        if (known == NULL) return failure(err, ERROR_NOT_FOUND, "the restriction %.71s is not at hand", digest);
        if (json_array_append(policies, known->json) != 0) return policy_no_memory(err);
    }
    return SUCCESS;
}

struct result replay_restrictions_join(struct replay_restrictions *restrictions, const struct replay_restrictions_query *query,
                                       const struct policy_documents **documents_out, struct error *err)
{
    OWNED_JSON policies = json_array();

    *documents_out = policy_set_documents(query->set);
    if (restrictions != NULL) TRY(check_age(restrictions, query, err));
    if (query->digests == NULL) return SUCCESS;
    if (policies == NULL) return policy_no_memory(err);
    TRY(gather(restrictions, query, policies, err));
    if (restrictions->joined == NULL || restrictions->set != query->set ||
        json_equal(restrictions->digests, query->digests) != 1) {
        forget_joined(restrictions);
        TRY(policy_restrictions_join(query->set, policies, &restrictions->joined, err));
        restrictions->set = query->set;
        restrictions->digests = json_deep_copy(query->digests);
        if (restrictions->digests == NULL) return policy_no_memory(err);
    }
    *documents_out = restrictions->joined;
    return SUCCESS;
}
