#include "policy/set.h"

#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "documents/format/set_approval.h"
#include "documents/format/set_change.h"
#include "policy/no_memory_priv.h"
#include "policy/set_priv.h"

/* --- compiling --- */

static int compare_by_project(const void *a, const void *b)
{
    struct policy_exception *const *left = a, *const *right = b;
    const int by_project = memcmp(&(*left)->project, &(*right)->project, sizeof(struct uuid));

    return by_project != 0 ? by_project : strcmp((*left)->canonical, (*right)->canonical);
}

/* A malformed exception makes a signed set invalid. */
static struct result compile_exceptions(struct policy_set *set, const json_t *array, struct error *err)
{
    const size_t count = json_array_size(array);

    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    set->exceptions = memory_zeroed(count + 1, sizeof *set->exceptions);
    if (set->exceptions == NULL) return policy_no_memory(err);
    for (; set->exception_count < count; set->exception_count++) {
        struct policy_exception **exception = &set->exceptions[set->exception_count];
        TRY(policy_exception_new(json_array_get(array, set->exception_count), exception, err));
        if (policy_exception_problem(*exception) == NULL) continue;
        const struct result refused = failure(err, ERROR_INVALID, "%s", policy_exception_problem(*exception));
        policy_exception_free(*exception);
        return refused;
    }
    qsort(set->exceptions, count, sizeof(struct policy_exception *), compare_by_project);
    return SUCCESS;
}

static struct result compile_declassified(struct policy_set *set, const json_t *array, struct error *err)
{
    const size_t count = json_array_size(array);

    set->declassified = arena_take(set->arena, (count + 1) * sizeof *set->declassified);
    if (set->declassified == NULL) return policy_no_memory(err);
    for (; set->declassified_count < count; set->declassified_count++) {
        const json_t *each = json_array_get(array, set->declassified_count);
        struct declassification *place = &set->declassified[set->declassified_count];
        place->policy = json_text_of(each, "policy");
        TRY(compile_scopes(set->arena, json_object_get(each, "scope"), &place->scopes, err));
    }
    return SUCCESS;
}

static struct result digest_of_set(const json_t *json, char digest_out[SHA_TEXT_SIZE], struct error *err)
{
    struct digest digest = {.algorithm = DIGEST_SHA256};
    char text[DIGEST_TEXT_SIZE];

    TRY(set_digest_of(json, digest.bytes, err));
    digest_format(&digest, text);
    memcpy(digest_out, text, SHA_TEXT_SIZE); /* with its end */
    return SUCCESS;
}

static struct result check_digest(struct policy_set *set, struct error *err)
{
    TRY(digest_of_set(set->json, set->digest, err));
    if (strcmp(set->digest, json_text_of(set->json, "digest")) != 0)
        return failure(err, ERROR_INVALID, "set.digest: is not that of the other members");
    return SUCCESS;
}

/* An exception, a pin and a decision name a policy by id and version, so that name must mean one document. */
static struct result compile_policies(struct policy_set *set, const json_t *array, struct error *err)
{
    TRY(policy_documents_new(array, &set->documents, err));
    const struct policy_documents *documents = set->documents;
    if (documents->count < json_array_size(array)) return failure(err, ERROR_INVALID, "policies: a policy is there twice");
    for (size_t i = 1; i < documents->count; i++)
        if (strcmp(documents->documents[i - 1]->name, documents->documents[i]->name) == 0)
            return failure(err, ERROR_INVALID, "policies: two of the name %.120s; give one of them another version",
                           documents->documents[i]->name);
    return SUCCESS;
}

/* Neither says anything about content. */
static struct result check_signing(const json_t *json, struct error *err)
{
    const struct root_terms none = {0};
    struct set_approval approval;
    struct root_terms terms;

    TRY(set_approval_read(json, &approval, err));
    return set_terms_read(json, &none, &terms, err);
}

static struct result compile_set(struct policy_set *set, struct error *err)
{
    OWNED_JSON nothing = json_object();

    TRY(shape_check(&shape_set, set->json, "set", err));
    TRY(check_signing(set->json, err));
    TRY(check_digest(set, err));
    if (nothing == NULL) return policy_no_memory(err);
    set->epoch = (uint64_t)json_integer_value(json_object_get(set->json, "epoch"));
    TRY(arena_new(POLICY_ARENA_MAX, &set->arena, err));
    TRY(policy_target_new(nothing, &set->unknown, err));
    TRY(compile_policies(set, json_object_get(set->json, "policies"), err));
    TRY(policy_groups_new(json_object_get(set->json, "groups"), &set->groups, err));
    TRY(set_compile_regions(set, json_object_get(set->json, "regions"), err));
    TRY(set_compile_networks(set, json_object_get(set->json, "networks"), err));
    TRY(compile_declassified(set, json_object_get(set->json, "declassified"), err));
    return compile_exceptions(set, json_object_get(set->json, "exceptions"), err);
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    policy_set_compile(struct bytes payload, struct policy_set **set_out, struct error *err)
{
    OWNED(policy_set) *set = memory_zeroed(1, sizeof *set);
    struct buffer OWNED_BUFFER canonical = BUFFER(POLICY_SET_BYTES_MAX);

    if (set == NULL) return policy_no_memory(err);
    atomic_init(&set->holders, 1);
    TRY(json_read(payload, POLICY_SET_BYTES_MAX, &set->json, err));
    TRY(compile_set(set, err));
    TRY(json_write_canonical(&canonical, set->json, err));
    if (!bytes_equal(buffer_bytes(&canonical), payload))
        return failure(err, ERROR_INVALID, "a policy set must be canonical JSON (RFC 8785)");
    *set_out = GIVE(set);
    return SUCCESS;
}
NO_LEAK_END

/* --- the envelope --- */

static json_t *or_empty(json_t *given, json_t *(*empty)(void))
{
    return given == NULL ? empty() : json_incref(given);
}

static struct result put_together(const struct policy_set_parts *parts, json_t **json_out, struct error *err)
{
    char digest[SHA_TEXT_SIZE];

    if (parts->epoch < 1 || parts->epoch > INT64_MAX)
        return failure(err, ERROR_INVALID, "set.epoch: a whole number from 1 expected");
    OWNED_JSON json = json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "apiVersion", "sijil.policy/v1", "kind", "PolicySet",
                                "epoch", (json_int_t)parts->epoch, "policies", or_empty(parts->policies, json_array), "regions",
                                or_empty(parts->regions, json_object), "groups", or_empty(parts->groups, json_object), "networks",
                                or_empty(parts->networks, json_array), "exceptions", or_empty(parts->exceptions, json_array));
    if (json == NULL) return policy_no_memory(err);
    if (parts->declassified != NULL && json_object_set(json, "declassified", parts->declassified) != 0)
        return policy_no_memory(err);
    if (parts->root != NULL && json_object_set(json, "root", parts->root) != 0) return policy_no_memory(err);
    if (parts->approval != NULL && json_object_set(json, "approval", parts->approval) != 0) return policy_no_memory(err);
    TRY(digest_of_set(json, digest, err));
    if (json_object_set_new(json, "digest", json_string(digest)) != 0) return policy_no_memory(err);
    *json_out = GIVE(json);
    return SUCCESS;
}

bool policy_set_has_member(const char *name)
{
    const struct shape_member *member = shape_set.members;

    while (member->name != NULL && strcmp(member->name, name) != 0) member++;
    return member->name != NULL;
}

struct result policy_set_compose(const struct policy_set_parts *parts, struct buffer *payload, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED_JSON json = NULL;

    TRY(put_together(parts, &json, err));
    TRY(json_write_canonical(&text, json, err));
    TRY(policy_set_compile(buffer_bytes(&text), &set, err));
    return buffer_add(payload, text.data, text.length, err);
}

struct result policy_set_sign(struct bytes payload, const struct ecdsa_key *signer, struct buffer *envelope, struct error *err)
{
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_compile(payload, &set, err));
    return dsse_write(POLICY_SET_TYPE, payload, &signer, 1, envelope, err);
}

static struct result read_envelope(struct bytes envelope, struct dsse **dsse_out, struct error *err)
{
    struct error why = {0};

    if (dsse_read(envelope, POLICY_SET_ENVELOPE_MAX, dsse_out, &why).ok) return SUCCESS;
    if (why.kind != ERROR_INVALID) return failure(err, why.kind, "%s", why.message);
    return failure(err, ERROR_INVALID, "no signed policy set ('sijil policy sign' makes one): %.150s", why.message);
}

/* `must`: the approver has signed it, whatever it says of others. */
static struct result read_set(struct bytes envelope, const struct ecdsa_key *approver, bool must, struct policy_set **set_out,
                              struct error *err)
{
    OWNED(dsse) *dsse = NULL;
    struct error refused = {0};

    TRY(read_envelope(envelope, &dsse, err));
    if (strcmp(dsse->payload_type, POLICY_SET_TYPE) != 0)
        return failure(err, ERROR_INVALID, "a policy set expected, payload type " POLICY_SET_TYPE);
    const bool is_signed = dsse_check_signer(dsse, approver, &refused).ok;
    if (!is_signed && (must || refused.kind == ERROR_NO_MEMORY)) return failure(err, refused.kind, "%s", refused.message);
    OWNED(policy_set) *set = NULL;
    TRY(policy_set_compile(buffer_bytes(&dsse->payload), &set, err));
    if (!is_signed && !policy_set_has_approval(set)) return failure(err, refused.kind, "%s", refused.message);
    set->envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    TRY(buffer_add(&set->envelope, envelope.data, envelope.length, err));
    *set_out = GIVE(set);
    return SUCCESS;
}

struct result policy_set_read(struct bytes envelope, const struct ecdsa_key *approver, struct policy_set **set_out,
                              struct error *err)
{
    return read_set(envelope, approver, true, set_out, err);
}

struct result policy_set_read_named(struct bytes envelope, const struct ecdsa_key *root, struct policy_set **set_out,
                                    struct error *err)
{
    return read_set(envelope, root, false, set_out, err);
}

/* --- access --- */

uint64_t policy_set_epoch(const struct policy_set *set)
{
    return set->epoch;
}

bool policy_set_has_approval(const struct policy_set *set)
{
    return json_object_get(set->json, "approval") != NULL;
}

bool policy_set_names_others(const struct policy_set *set)
{
    return policy_set_has_approval(set) || set->exception_count > 0;
}

const json_t *policy_set_json(const struct policy_set *set)
{
    return set->json;
}

struct bytes policy_set_envelope(const struct policy_set *set)
{
    return buffer_bytes(&set->envelope);
}

uint64_t policy_set_checked_until(const struct policy_set *set)
{
    return atomic_load(&set->checked_until);
}

void policy_set_note_checked(struct policy_set *set, uint64_t until)
{
    atomic_store(&set->checked_until, until);
}

const char *policy_set_digest(const struct policy_set *set)
{
    return set->digest;
}

const struct policy_documents *policy_set_documents(const struct policy_set *set)
{
    return set->documents;
}

const struct policy_groups *policy_set_groups(const struct policy_set *set)
{
    return set->groups;
}

const struct policy_target *policy_set_unknown(const struct policy_set *set)
{
    return set->unknown;
}

const struct policy_exception *const *policy_set_exceptions(const struct policy_set *set, const struct uuid *project,
                                                            size_t *count_out)
{
    size_t first = 0, count = 0;

    while (first < set->exception_count && !uuid_equal(&set->exceptions[first]->project, project)) first++;
    while (first + count < set->exception_count && uuid_equal(&set->exceptions[first + count]->project, project)) count++;
    *count_out = count;
    return (const struct policy_exception *const *)set->exceptions + first;
}

bool policy_set_declassifies(const struct policy_set *set, const char *policy, const char *name)
{
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    size_t count = 0;

    if (set->declassified_count == 0 || !scope_cut(name, segments, &count)) return false;
    for (size_t i = 0; i < set->declassified_count; i++)
        if (strcmp(set->declassified[i].policy, policy) == 0 && scope_matches(&set->declassified[i].scopes, segments, count))
            return true;
    return false;
}

struct result policy_set_describe(const struct policy_set *set, struct buffer *json, struct error *err)
{
    TRY(buffer_format(json, err, "{\"digest\":\"%s\",\"epoch\":%llu,\"policies\":[", set->digest,
                      (unsigned long long)set->epoch));
    for (size_t i = 0; i < set->documents->count; i++) {
        const struct policy_document *policy = set->documents->documents[i];
        TRY(buffer_format(json, err, "%s{\"digest\":\"%s\",\"id\":\"%s\",\"review_by\":\"%s\",\"version\":%lld}",
                          i > 0 ? "," : "", policy->digest, policy->id, policy->review_by, (long long)policy->version));
    }
    return buffer_add_text(json, "]}", err);
}

struct result policy_set_write(const struct policy_set *set, struct buffer *json, struct error *err)
{
    const unsigned before = json_lacks();
    OWNED_JSON content = json_copy(set->json); /* a shallow copy */

    if (content == NULL || json_lacks() != before) return policy_no_memory(err);
    (void)json_object_del(content, "approval");
    (void)json_object_del(content, "root");
    return json_write_canonical(json, content, err);
}

struct policy_set *policy_set_keep(struct policy_set *set)
{
    if (set != NULL) (void)atomic_fetch_add(&set->holders, 1);
    return set;
}

void policy_set_free(struct policy_set *set)
{
    if (set == NULL || atomic_fetch_sub(&set->holders, 1) != 1) return;
    set_free_regions(set);
    for (size_t i = 0; i < set->place_count; i++) policy_target_free(set->networks[i].target);
    for (size_t i = 0; i < set->exception_count; i++) policy_exception_free(set->exceptions[i]);
    free(set->networks);
    free(set->exceptions);
    policy_target_free(set->unknown);
    policy_groups_free(set->groups);
    policy_documents_free(set->documents);
    arena_free(set->arena);
    json_decref(set->json);
    buffer_done(&set->envelope);
    free(set);
}
