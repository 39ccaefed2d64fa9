#include "policy/document.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "documents/format/restriction.h"
#include "policy/compiled_priv.h"
#include "policy/evaluate.h"
#include "policy/no_memory_priv.h"
#include "policy/rule_index_priv.h"

static struct result compile_pattern(struct arena *arena, const char *text, struct scope_pattern *pattern, struct error *err)
{
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    size_t count = 0;

    const bool is_cut = scope_cut(text, segments, &count);
    assert(is_cut); /* the shapes have checked the length */
    struct bytes *copy = arena_take(arena, count * sizeof *copy);
    if (copy == NULL) return policy_no_memory(err);
    memcpy(copy, segments, count * sizeof *copy);
    *pattern = (struct scope_pattern){count, copy};
    return SUCCESS;
}

struct result compile_scopes(struct arena *arena, const json_t *array, struct scope_list *scopes_out, struct error *err)
{
    const size_t count = json_array_size(array);
    struct scope_pattern *patterns = arena_take(arena, count * sizeof *patterns);

    if (patterns == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < count; i++)
        TRY(compile_pattern(arena, json_string_value(json_array_get(array, i)), &patterns[i], err));
    *scopes_out = (struct scope_list){count, patterns};
    return SUCCESS;
}

static struct result compile_metadata(struct policy_document *document, const json_t *metadata, struct error *err)
{
    const json_t *applies_to = json_object_get(metadata, "applies_to_labels");

    document->id = json_text_of(metadata, "id");
    document->review_by = json_text_of(metadata, "review_by");
    document->organisation = json_text_of(metadata, "organisation");
    document->version = json_integer_value(json_object_get(metadata, "version"));
    document->name = arena_format(document->arena, "%s@%lld", document->id, (long long)document->version);
    if (document->name == NULL) return policy_no_memory(err);
    (void)day_parse(bytes_of_text(document->review_by), &document->review_by_day); /* the shapes have read both */
    (void)policy_time_parse(bytes_of_text(json_text_of(metadata, "effective_from")), &document->effective_from_us);

    document->has_applies_to = applies_to != NULL;
    if (applies_to != NULL && json_object_size(applies_to) == 0)
        return failure(err, ERROR_INVALID, "policy.metadata.applies_to_labels: is empty: leave it out");
    TRY(compile_label_test(document->arena, applies_to, &document->applies_to, err));
    return compile_scopes(document->arena, json_object_get(metadata, "scope"), &document->scopes, err);
}

/* The floor of a policy always pins the policy itself, and does not state a lineage. */
static struct result compile_floor(struct policy_document *document, const json_t *floor, struct error *err)
{
    bool is_stated = false;

    document->has_floor = floor != NULL;
    if (floor == NULL) return SUCCESS;
    TRY(label_read_floor(floor, &document->floor, &is_stated, err));
    document->floor.pins[0] = document->id;
    document->floor.pin_count = 1;
    return SUCCESS;
}

static struct result compile_type(struct arena *arena, const json_t *json, struct exception_type *type, struct error *err)
{
    type->max_days = json_integer_value(json_object_get(json, "max_days"));
    type->approvals = json_integer_value(json_object_get(json, "approvals"));
    TRY(compile_texts(arena, json_object_get(json, "lifts"), &type->lifts, err));
    TRY(compile_texts(arena, json_object_get(json, "required_evidence"), &type->required_evidence, err));
    return compile_obligation(arena, json_object_get(json, "adds"), &type->adds, err);
}

static struct result compile_types(struct policy_document *document, json_t *object, struct error *err)
{
    struct exception_type *types = arena_take(document->arena, (json_object_size(object) + 1) * sizeof *types);
    const char *name;
    json_t *each;
    size_t count = 0;

    if (types == NULL) return policy_no_memory(err);
    json_object_foreach (object, name, each) {
        types[count].name = name;
        TRY(compile_type(document->arena, each, &types[count++], err));
    }
    document->type_count = count;
    document->types = types;
    return SUCCESS;
}

static struct result compile_document(struct policy_document *document, struct error *err)
{
    const json_t *closed = json_object_get(document->json, "closed");
    struct buffer OWNED_BUFFER canonical = BUFFER(POLICY_DOCUMENT_BYTES_MAX);

    TRY(shape_check(&shape_policy, document->json, "policy", err));
    TRY(json_write_canonical(&canonical, document->json, err));
    sha_text(buffer_bytes(&canonical), document->digest);
    document->is_closed = closed == NULL || json_typeof(closed) == JSON_TRUE;
    TRY(compile_metadata(document, json_object_get(document->json, "metadata"), err));
    if (document->organisation != NULL) TRY(restriction_check_policy(document->json, document->organisation, err));
    TRY(compile_floor(document, json_object_get(document->json, "labels"), err));
    TRY(compile_rules(document, json_object_get(document->json, "rules"), err));
    return compile_types(document, json_object_get(document->json, "exception_types"), err);
}

struct result policy_document_new(json_t *json, struct policy_document **document_out, struct error *err)
{
    OWNED(policy_document) *document = memory_zeroed(1, sizeof *document);

    if (document == NULL) return policy_no_memory(err);
    TRY(arena_new(POLICY_ARENA_MAX, &document->arena, err));
    document->json = json_incref(json);
    TRY(compile_document(document, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

struct result policy_document_read(struct bytes text, struct policy_document **document_out, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read(text, POLICY_DOCUMENT_BYTES_MAX, &json, err));
    return policy_document_new(json, document_out, err);
}

const char *policy_document_name(const struct policy_document *document)
{
    return document->name;
}

const char *policy_document_digest(const struct policy_document *document)
{
    return document->digest;
}

void policy_document_free(struct policy_document *document)
{
    if (document == NULL) return;
    arena_free(document->arena);
    json_decref(document->json);
    free(document);
}

/* A set has many policies, so an error says which one. */
static struct result read_member(json_t *json, struct policy_document **document_out, struct error *err)
{
    const char *id = json_text_of(json_object_get(json, "metadata"), "id");
    struct error why = {0};

    const struct result read = policy_document_new(json, document_out, &why);
    if (read.ok || id == NULL || !shape_name_is_plain(id)) return read.ok ? SUCCESS : failure(err, why.kind, "%s", why.message);
    return failure(err, why.kind, "policy %s: %s", id, why.message);
}

static int compare_documents(const void *a, const void *b)
{
    struct policy_document *const *left = a, *const *right = b;
    const int by_name = strcmp((*left)->name, (*right)->name);

    return by_name != 0 ? by_name : strcmp((*left)->digest, (*right)->digest);
}

/* Removes duplicate documents. */
static void drop_repeats(struct policy_documents *set)
{
    size_t kept = 0;

    for (size_t i = 0; i < set->count; i++) {
        if (kept > 0 && compare_documents(&set->documents[kept - 1], &set->documents[i]) == 0)
            policy_document_free(set->documents[i]);
        else set->documents[kept++] = set->documents[i];
    }
    set->count = kept;
}

static struct result list_digests(struct policy_documents *set, struct error *err)
{
    const char *digests[POLICY_COUNT_MAX];
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_COUNT_MAX * (SHA_TEXT_SIZE + 4));

    for (size_t i = 0; i < set->count; i++) digests[i] = set->documents[i]->digest;
    /* cppcheck-suppress uninitvar ; as many as the loop above has set */
    qsort(digests, set->count, sizeof *digests, compare_texts);
    TRY(buffer_add_u8(&text, '[', err));
    for (size_t i = 0; i < set->count; i++) TRY(buffer_format(&text, err, "%s\"%s\"", i > 0 ? "," : "", digests[i]));
    TRY(buffer_add_u8(&text, ']', err));
    set->digests = (char *)GIVE(text.data);
    return SUCCESS;
}

struct result policy_documents_new(const json_t *array, struct policy_documents **documents_out, struct error *err)
{
    OWNED(policy_documents) *set = memory_zeroed(1, sizeof *set);
    const size_t count = json_array_size(array);

    if (set == NULL) return policy_no_memory(err);
    if (!json_is_array(array)) return failure(err, ERROR_INVALID, "policies: a list expected");
    if (count > POLICY_COUNT_MAX)
        return failure(err, ERROR_LIMIT, "%zu policies; at most %d in one set: join policies of equal scopes", count,
                       POLICY_COUNT_MAX);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    set->documents = memory_zeroed(count + 1, sizeof *set->documents);
    if (set->documents == NULL) return policy_no_memory(err);
    for (; set->count < count; set->count++)
        TRY(read_member(json_array_get(array, set->count), &set->documents[set->count], err));
    qsort(set->documents, count, sizeof(struct policy_document *), compare_documents);
    drop_repeats(set);
    TRY(list_digests(set, err));
    TRY(rule_index_new(set->documents, set->count, &set->index, err));
    *documents_out = GIVE(set);
    return SUCCESS;
}

size_t policy_documents_count(const struct policy_documents *documents)
{
    return documents->count;
}

void policy_documents_free(struct policy_documents *documents)
{
    if (documents == NULL) return;
    for (size_t i = 0; i < documents->count; i++) policy_document_free(documents->documents[i]);
    free(documents->documents);
    free(documents->digests);
    rule_index_free(documents->index);
    free(documents);
}
