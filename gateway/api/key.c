/* /api/v1/keys: the versions of the key-encryption keys, and how many keys are wrapped under each (docs/keys.md). */
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "gateway/background/mint_watch.h"
#include "registry/jobs/job.h"

PART(key_version, "a version of the key-encryption keys", HAS_COUNT("version", REQUIRED, "its number"),
     HAS_WORD("state", REQUIRED, "newest held unused destroyed unknown", "whether sijil-keyd has it, and whether it is used"),
     HAS_COUNT("blobs", REQUIRED, "keys of blobs that are under it"),
     HAS_COUNT("projects", REQUIRED, "keys of manifests that are under it"),
     HAS_COUNT("uploads", REQUIRED, "keys of uploads that are under it"))
PART(token_scopes, "tokens by the access that they give", HAS_COUNT("administration", REQUIRED, "of the API"),
     HAS_COUNT("catalog", REQUIRED, "to list names"), HAS_COUNT("delete", REQUIRED, "to delete"),
     HAS_COUNT("push", REQUIRED, "to push"), HAS_COUNT("pull", REQUIRED, "to pull"),
     HAS_COUNT("nothing", REQUIRED, "without any"))
PART(token_administrator, "a credential that got tokens of the API",
     HAS_TEXT("credential", REQUIRED, FORM_FREE, 1, 0, "its digest"), HAS_COUNT("tokens", REQUIRED, "how many"))
PART(token_counts, "tokens that sijil-keyd has signed", HAS_COUNT("signed", REQUIRED, "how many"),
     HAS_OBJECT("scopes", REQUIRED, schema_token_scopes, "by what they are for"),
     HAS_LIST("administrators", REQUIRED, 0, schema_token_administrator, "tokens of the API, by the credential that got them"),
     HAS_COUNT("recorded", REQUIRED, "how many the log has"),
     HAS_COUNT("unexplained", REQUIRED, "tokens of the API without an event"),
     HAS_COUNT("lost", REQUIRED, "tokens that were signed and are not counted above"))
SCHEMA(keys, "what sijil-keyd holds and has done",
       HAS_LIST("versions", REQUIRED, 0, schema_key_version, "versions of the key-encryption keys"),
       HAS_OBJECT("tokens", REQUIRED, schema_token_counts, "tokens"),
       HAS_COUNT("unwraps", REQUIRED, "keys that it has unwrapped"))

static bool is_held(const struct keyd_identity *identity, uint32_t version)
{
    for (size_t i = 0; i < identity->version_count; i++)
        if (identity->versions[i] == version) return true;
    return false;
}

static const char *state_of(const struct keyd_identity *identity, uint32_t version)
{
    if (version == identity->key_version) return "newest";
    if (version == 0 || version > identity->key_version) return "unknown";
    if (!is_held(identity, version)) return "destroyed";
    return version < identity->unused_below ? "unused" : "held";
}

static const struct key_count *count_of(const struct key_count *counts, size_t count, uint32_t version)
{
    static const struct key_count none;

    for (size_t i = 0; i < count; i++)
        if (counts[i].version == version) return &counts[i];
    return &none;
}

static struct result add_version(const struct keyd_identity *identity, uint32_t version, const struct key_count *keys,
                                 json_t *list, struct error *err)
{
    json_t *value = json_pack("{s:I, s:s, s:I, s:I, s:I}", "version", (json_int_t)version, "state", state_of(identity, version),
                              "blobs", (json_int_t)keys->keys[KEYS_OF_BLOBS], "projects",
                              (json_int_t)keys->keys[KEYS_OF_PROJECTS], "uploads", (json_int_t)keys->keys[KEYS_OF_UPLOADS]);

    if (value != NULL && json_array_append_new(list, value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

/* All versions that keyd ever had, then versions of rows that keyd does not know: an operator must see these. */
static struct result list_versions(const struct keyd_identity *identity, const struct key_count *counts, size_t count,
                                   json_t *list, struct error *err)
{
    for (uint32_t version = 1; version <= identity->key_version; version++)
        TRY(add_version(identity, version, count_of(counts, count, version), list, err));
    for (size_t i = 0; i < count; i++)
        if (counts[i].version == 0 || counts[i].version > identity->key_version)
            TRY(add_version(identity, counts[i].version, &counts[i], list, err));
    return SUCCESS;
}

static json_t *by_scope(const struct keyd_identity *identity)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "administration", (json_int_t)identity->mints[MINT_ADMINISTRATION],
                     "catalog", (json_int_t)identity->mints[MINT_CATALOG], "delete", (json_int_t)identity->mints[MINT_DELETE],
                     "push", (json_int_t)identity->mints[MINT_PUSH], "pull", (json_int_t)identity->mints[MINT_PULL], "nothing",
                     (json_int_t)identity->mints[MINT_NOTHING]);
}

static json_t *by_credential(const struct keyd_identity *identity)
{
    json_t *list = json_array();
    char id[2 * MINTER_ID_SIZE + 1];

    for (size_t i = 0; list != NULL && i < identity->minter_count; i++) {
        text_hex(identity->minters[i].credential, MINTER_ID_SIZE, id);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:I}", "credential", id, "tokens", (json_int_t)identity->minters[i].count));
    }
    return list;
}

static json_t *tokens_of(const struct keyd_identity *identity, const struct audit_mints *events)
{
    uint64_t total = 0;

    for (size_t i = 0; i < MINT_SCOPES; i++) total += identity->mints[i];
    return json_pack("{s:I, s:o, s:o, s:I, s:I, s:I}", "signed", (json_int_t)total, "scopes", by_scope(identity),
                     "administrators", by_credential(identity), "recorded", (json_int_t)events->all, "unexplained",
                     (json_int_t)mints_unexplained(identity, events), "lost", (json_int_t)identity->mints_lost);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct key_count counts[KEY_COUNTS_MAX];
    struct keyd_identity identity;
    struct audit_mints events;
    size_t count = 0;
    OWNED_JSON list = json_array();

    TRY(keyd_identify(request->gateway->keyd, &identity, err));
    TRY(audit_count_mints(request->permit, pg, &events, err)); /* after keyd's count, so it can't be too small */
    TRY(job_count_keys(request->permit, pg, counts, &count, err));
    TRY(list_versions(&identity, counts, count, list, err));
    OWNED_JSON tokens = tokens_of(&identity, &events);
    OWNED_JSON value =
        json_pack("{s:O, s:O, s:I}", "versions", list, "tokens", tokens, "unwraps", (json_int_t)identity.unwrap_count);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_key_list = {.handle = handle};
