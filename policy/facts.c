/* Writes facts for the id of a decision, and reads them to replay one. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "policy/facts_priv.h"

const char *policy_operation_name(unsigned op)
{
    const int bit = __builtin_ctz(op);

    assert(op == 1U << bit && bit < OP_COUNT);
    return operation_names[bit];
}

/* clock_parse() stops at milliseconds; the fourth to sixth digit after the point are added here. */
bool policy_time_parse(struct bytes text, int64_t *us_out)
{
    int64_t wall_ms = 0, rest = 0, unit = 100;

    if (!clock_parse(text, &wall_ms)) return false;
    const uint8_t *point = memchr(text.data, '.', text.length);
    for (unsigned i = 1; point != NULL && point[i] >= '0' && point[i] <= '9'; i++) {
        if (i < 4) continue;
        rest += (point[i] - '0') * unit;
        unit /= 10;
    }
    *us_out = wall_ms * 1000 + rest;
    return true;
}

static struct result write_exceptions(struct buffer *buffer, const struct policy_facts *facts, struct error *err)
{
    TRY(buffer_add_text(buffer, ",\"exceptions\":[", err));
    for (size_t i = 0; i < facts->exception_count; i++) {
        if (i > 0) TRY(buffer_add_u8(buffer, ',', err));
        TRY(buffer_add_text(buffer, facts->exceptions[i]->canonical, err));
    }
    return buffer_add_text(buffer, "],\"label\":", err);
}

static struct result write_scope(struct buffer *buffer, const struct policy_facts *facts, struct error *err)
{
    char project[UUID_TEXT_SIZE];

    uuid_format(&facts->project, project);
    TRY(buffer_format(buffer, err,
                      ",\"policy_epoch\":%llu,\"project\":\"%s\",\"scope\":", (unsigned long long)facts->policy_epoch, project));
    TRY(json_write_string(buffer, bytes_of_text(facts->scope), err));
    TRY(buffer_add_text(buffer, ",\"target\":", err));
    TRY(buffer_add_text(buffer, facts->target->canonical, err));
    TRY(buffer_add_text(buffer, ",\"target_id\":", err));
    TRY(json_write_string(buffer, bytes_of_text(facts->target_id), err));
    return buffer_add_u8(buffer, '}', err);
}

struct result facts_write(struct buffer *buffer, const struct policy_facts *facts, struct error *err)
{
    char now[CLOCK_TEXT_SIZE];

    if (facts->canonical != NULL) return buffer_add_text(buffer, facts->canonical, err);
    assert(facts->now_us % 1000 == 0); /* the text has milliseconds only */
    clock_format(facts->now_us / 1000, now);
    TRY(buffer_add_text(buffer, "{\"digest\":", err));
    if (facts->digest == NULL) TRY(buffer_add_text(buffer, "null", err));
    else TRY(json_write_string(buffer, bytes_of_text(facts->digest), err));
    TRY(write_exceptions(buffer, facts, err));
    if (facts->label == NULL) TRY(buffer_add_text(buffer, "null", err));
    else TRY(label_write(buffer, facts->label, err));
    TRY(buffer_format(buffer, err, ",\"now\":\"%s\",\"op\":\"%s\"", now, policy_operation_name(facts->op)));
    return write_scope(buffer, facts, err);
}

struct policy_facts_document {
    json_t *json;
    char *canonical;
    struct label label;
    struct policy_target *target;
    size_t exception_count;
    struct policy_exception **exceptions;
    struct policy_facts facts;
};

static struct result read_digest(const json_t *json, const char **digest_out, struct error *err)
{
    if (json_typeof(json) == JSON_NULL) {
        *digest_out = NULL;
        return SUCCESS;
    }
    TRY(shape_check(&shape_digest, json, "facts.digest", err));
    *digest_out = json_string_value(json);
    return SUCCESS;
}

int compare_exceptions(const void *a, const void *b)
{
    struct policy_exception *const *left = a, *const *right = b;

    return strcmp((*left)->canonical, (*right)->canonical);
}

static struct result read_exceptions(struct policy_facts_document *document, const json_t *array, struct error *err)
{
    const size_t count = json_array_size(array);

    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what is made */
    document->exceptions = memory_zeroed(count + 1, sizeof *document->exceptions);
    if (document->exceptions == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    for (; document->exception_count < count; document->exception_count++)
        TRY(policy_exception_new(json_array_get(array, document->exception_count),
                                 &document->exceptions[document->exception_count], err));
    qsort(document->exceptions, count, sizeof(struct policy_exception *), compare_exceptions);
    document->facts.exception_count = count;
    document->facts.exceptions = (const struct policy_exception *const *)document->exceptions;
    return SUCCESS;
}

static struct result read_facts(struct policy_facts_document *document, struct error *err)
{
    const json_t *json = document->json, *label = json_object_get(json, "label");
    struct policy_facts *facts = &document->facts;

    TRY(shape_check(&shape_facts, json, "facts", err));
    TRY(canonical_copy(json, POLICY_FACTS_BYTES_MAX, &document->canonical, err));
    facts->canonical = document->canonical;
    facts->op = (enum policy_operation)(1U << word_index(operation_names, json_text_of(json, "op")));
    facts->scope = json_text_of(json, "scope");
    facts->target_id = json_text_of(json, "target_id");
    facts->policy_epoch = (uint64_t)json_integer_value(json_object_get(json, "policy_epoch"));
    (void)uuid_parse(bytes_of_text(json_text_of(json, "project")), &facts->project); /* the shapes have read both */
    (void)policy_time_parse(bytes_of_text(json_text_of(json, "now")), &facts->now_us);
    TRY(read_digest(json_object_get(json, "digest"), &facts->digest, err));
    if (json_typeof(label) != JSON_NULL) {
        TRY(label_read(label, &document->label, err));
        facts->label = &document->label;
    }
    TRY(policy_target_new(json_object_get(json, "target"), &document->target, err));
    facts->target = document->target;
    return read_exceptions(document, json_object_get(json, "exceptions"), err);
}

struct result policy_facts_read(const json_t *json, struct policy_facts_document **facts_out, struct error *err)
{
    OWNED(policy_facts_document) *document = memory_zeroed(1, sizeof *document);

    if (document == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    document->json = json_incref((json_t *)(uintptr_t)json); /* only the count changes */
    TRY(read_facts(document, err));
    *facts_out = GIVE(document);
    return SUCCESS;
}

const struct policy_facts *policy_facts_of(const struct policy_facts_document *facts)
{
    return &facts->facts;
}

void policy_facts_document_free(struct policy_facts_document *facts)
{
    if (facts == NULL) return;
    for (size_t i = 0; i < facts->exception_count; i++) policy_exception_free(facts->exceptions[i]);
    free(facts->exceptions);
    policy_target_free(facts->target);
    free(facts->canonical);
    json_decref(facts->json);
    free(facts);
}
