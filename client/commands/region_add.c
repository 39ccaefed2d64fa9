/* `sijil region add`: drafts the policy set that has the region's record, and says how its store is set up. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/commands/region_priv.h"
#include "client/local.h"
#include "crypto/digest.h"
#include "crypto/random.h"
#include "policy/places.h"

#define EVIDENCE_MAX ((size_t)64 << 20) /* a scanned certificate */
#define NAME_SIZE    128

static struct result no_utf8(struct error *err)
{
    return failure(err, ERROR_INVALID, "a text that is not UTF-8, or no memory");
}

/* ---- facts ---- */

static struct result set_text(json_t *object, const char *member, const char *text, struct error *err)
{
    if (text == NULL) return SUCCESS;
    return json_object_set_new(object, member, json_string(text)) == 0 ? SUCCESS : no_utf8(err);
}

/* The values of an option, if it was given at all. */
static struct result set_texts(const struct invocation *invocation, int letter, json_t *object, const char *member,
                               struct error *err)
{
    OWNED_JSON texts = json_array();
    unsigned at = 0;

    for (const char *each; (each = invocation_next_option(invocation, letter, &at)) != NULL;)
        if (json_array_append_new(texts, json_string(each)) != 0) return no_utf8(err);
    if (json_array_size(texts) == 0) return SUCCESS;
    return json_object_set(object, member, texts) == 0 ? SUCCESS : no_utf8(err);
}

/* The member, made if it is not there. */
static json_t *part_of(json_t *object, const char *member)
{
    json_t *part = json_object_get(object, member);

    if (part == NULL && json_object_set_new(object, member, json_object()) == 0) part = json_object_get(object, member);
    return part;
}

static struct result check_place(const char *option, const char *place, struct error *err)
{
    if (place == NULL || place_is_known(place)) return SUCCESS;
    return failure(err, ERROR_INVALID, "--%s %.24s: no place of ISO 3166, such as AE or AE/DU", option, place);
}

static struct result check_control(const char *control, struct error *err)
{
    static const char *const known[] = {"customer-hsm", "customer-soft", "provider-kms"};

    for (size_t i = 0; control != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(control, known[i]) == 0) return SUCCESS;
    if (control == NULL) return SUCCESS;
    return failure(err, ERROR_INVALID, "--key-control %.30s: customer-hsm, customer-soft or provider-kms", control);
}

static struct result check_words(const struct invocation *invocation, struct error *err)
{
    unsigned at = 0;

    TRY(check_place("geo", invocation_option(invocation, 'g'), err));
    TRY(check_place("key-geo", invocation_option(invocation, 'G'), err));
    TRY(check_control(invocation_option(invocation, 'x'), err));
    for (const char *each; (each = invocation_next_option(invocation, 'C', &at)) != NULL;)
        TRY(check_place("controlled-from", each, err));
    at = 0;
    for (const char *each; (each = invocation_next_option(invocation, 'r', &at)) != NULL;)
        if (!regime_is_known(each))
            return failure(err, ERROR_INVALID, "--regime %.24s: no known regime; one of your own begins with X-", each);
    return SUCCESS;
}

static struct result set_key(const struct invocation *invocation, json_t *record, struct error *err)
{
    const char *ring = invocation_option(invocation, 'K'), *geo = invocation_option(invocation, 'G');
    const char *control = invocation_option(invocation, 'x');

    if (ring == NULL && geo == NULL && control == NULL) return SUCCESS;
    json_t *key = part_of(record, "key");
    if (key == NULL) return no_utf8(err);
    TRY(set_text(key, "ring", ring, err));
    TRY(set_text(key, "geo", geo, err));
    return set_text(key, "control", control, err);
}

static struct result set_operator(const struct invocation *invocation, json_t *record, struct error *err)
{
    if (invocation_option(invocation, 'n') == NULL && invocation_option(invocation, 'C') == NULL) return SUCCESS;
    json_t *operator= part_of(record, "operator");
    if (operator== NULL) return no_utf8(err);
    TRY(set_text(operator, "name", invocation_option(invocation, 'n'), err));
    return set_texts(invocation, 'C', operator, "controlled_from", err);
}

/* ---- attributes: NAME, or NAME=DAY,FILE ---- */

static struct result digest_file(const char *path, char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER(EVIDENCE_MAX);

    TRY(local(file_read(path, &content, err), path, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&content));
    digest_format(&digest, digest_out);
    return SUCCESS;
}

static bool is_day(const char *text)
{
    char midnight[32];
    int64_t at_ms = 0;

    if (strlen(text) != strlen("2027-01-31")) return false;
    (void)snprintf(midnight, sizeof midnight, "%sT00:00:00Z", text);
    return clock_parse(bytes_of_text(midnight), &at_ms);
}

static struct result attest(json_t *record, const char *name, const char *until, const char *path, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE];
    json_t *attested = part_of(record, "attested");

    TRY(digest_file(path, digest, err));
    if (attested == NULL || json_object_set_new(attested, name, json_pack("{s:s, s:s}", "until", until, "evidence", digest)) != 0)
        return no_utf8(err);
    return SUCCESS;
}

static bool lists(const json_t *texts, const char *text)
{
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (strcmp(json_string_value(json_array_get(texts, i)), text) == 0) return true;
    return false;
}

static struct result add_attribute(json_t *record, const char *given, struct error *err)
{
    char text[NAME_SIZE];
    json_t *attrs = json_object_get(record, "attrs");
    const char *path = strchr(given, ',');
    char *until = NULL;

    if (!text_copy(text, sizeof text, given) && path == NULL)
        return failure(err, ERROR_INVALID, "--attr: at most %d letters", NAME_SIZE - 1);
    (void)snprintf(text, sizeof text, "%.*s", path == NULL ? NAME_SIZE - 1 : (int)(path - given), given);
    until = strchr(text, '=');
    if ((until == NULL) != (path == NULL)) return failure(err, ERROR_INVALID, "--attr %.60s: NAME, or NAME=DAY,FILE", given);
    if (until != NULL) *until++ = '\0';
    if (until != NULL && !is_day(until))
        return failure(err, ERROR_INVALID, "--attr %.60s: the last day is written as 2027-01-31", given);
    if (attrs == NULL) {
        if (json_object_set_new(record, "attrs", json_array()) != 0) return no_utf8(err);
        attrs = json_object_get(record, "attrs");
    }
    if (!lists(attrs, text) && json_array_append_new(attrs, json_string(text)) != 0) return no_utf8(err);
    return until == NULL ? SUCCESS : attest(record, text, until, path + 1, err);
}

static struct result set_attributes(const struct invocation *invocation, json_t *record, struct error *err)
{
    unsigned at = 0;

    for (const char *each; (each = invocation_next_option(invocation, 'a', &at)) != NULL;) TRY(add_attribute(record, each, err));
    return SUCCESS;
}

/* ---- the store ---- */

/* A region that the registry has keeps its mark; a new one gets a new mark, which the first gateway writes into its store. */
static struct result choose_mark(struct session *session, const char *region, char mark_out[33], struct error *err)
{
    OWNED_JSON known = NULL;
    struct error why = {0};
    uint8_t random[16];

    const struct result found = region_as_shown(session, region, &known, &why);
    if (!found.ok && why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    if (json_text_of(known, "mark") != NULL && text_copy(mark_out, 33, json_text_of(known, "mark"))) return SUCCESS;
    random_bytes(random, sizeof random);
    text_hex(random, sizeof random, mark_out);
    return SUCCESS;
}

static struct result set_store(const struct invocation *invocation, struct session *session, json_t *record, struct error *err)
{
    const bool is_bucket = invocation_option(invocation, 'b') != NULL;
    json_t *store = part_of(record, "store");
    char mark[33];

    if (store == NULL) return no_utf8(err);
    if (json_text_of(store, "mark") == NULL) {
        TRY(choose_mark(session, invocation->operands[1], mark, err));
        TRY(set_text(store, "mark", mark, err));
    }
    if (is_bucket && (invocation_option(invocation, 'e') == NULL || invocation_option(invocation, 'l') == NULL))
        return failure(err, ERROR_INVALID, "--bucket needs --endpoint and --location");
    if (is_bucket || json_text_of(store, "driver") == NULL) TRY(set_text(store, "driver", is_bucket ? "s3" : "fs", err));
    TRY(set_text(store, "endpoint", invocation_option(invocation, 'e'), err));
    TRY(set_text(store, "bucket", invocation_option(invocation, 'b'), err));
    TRY(set_text(store, "bucket_location", invocation_option(invocation, 'l'), err));
    TRY(set_text(store, "file_system", invocation_option(invocation, 'F'), err));
    return set_text(store, "prefix",
                    invocation_option(invocation, 'q') == NULL && is_bucket ? "" : invocation_option(invocation, 'q'), err);
}

/* ---- the set ---- */

static struct result set_facts(const struct invocation *invocation, struct session *session, json_t *record, struct error *err)
{
    TRY(set_text(record, "geo", invocation_option(invocation, 'g'), err));
    TRY(set_texts(invocation, 'r', record, "regimes", err));
    TRY(set_text(record, "location_evidence", invocation_option(invocation, 'E'), err));
    TRY(set_text(record, "site", invocation_option(invocation, 's'), err));
    TRY(set_operator(invocation, record, err));
    TRY(set_key(invocation, record, err));
    TRY(set_text(record, "keyd", invocation_option(invocation, 'D'), err));
    TRY(set_attributes(invocation, record, err));
    return set_store(invocation, session, record, err);
}

/* The region in the content of the next set: a new one, or with --change the one that is there. */
static struct result find_record(struct invocation *invocation, json_t *content, json_t **record_out, struct error *err)
{
    const char *region = invocation->operands[1];
    json_t *regions = json_object_get(content, "regions");
    const bool is_there = json_object_get(regions, region) != NULL, changes = invocation_option(invocation, 'u') != NULL;

    if (is_there != changes)
        return failure(err, ERROR_INVALID,
                       is_there ? "the set has the region %.63s already: --change changes what you name"
                                : "the set has no region %.63s to change",
                       region);
    if (!is_there && invocation_option(invocation, 'g') == NULL)
        return failure(err, ERROR_INVALID, "--geo PLACE: where the region is");
    if (!is_there && json_object_set_new(regions, region, json_object()) != 0) return no_utf8(err);
    *record_out = json_object_get(regions, region);
    return SUCCESS;
}

/* What the registry shows is changed, so a copy of the signed bytes. */
static struct result content_of(const struct policy_set *set, json_t **content_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);

    if (set == NULL) return failure(err, ERROR_NOT_FOUND, "no policy set is in force: load one first, sijil policy init");
    TRY(policy_set_write(set, &text, err));
    return json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, content_out, err);
}

struct result command_region_add(struct invocation *invocation, struct error *err)
{
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    OWNED(session) *session = NULL;
    OWNED_JSON content = NULL;
    json_t *record = NULL;

    TRY(line_check(invocation, check_words(invocation, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(policy_source_fetch(session, 0, &found, err));
    TRY(content_of(found.set, &content, err));
    TRY(line_check(invocation, find_record(invocation, content, &record, err)));
    TRY(line_check(invocation, set_facts(invocation, session, record, err)));
    return policy_draft_content(invocation, session, content, err);
}
