/*
 * Asks policy/evaluate.c all questions that tests/policy/cases.py asked oracle.py, and compares each whole answer.
 *
 * usage: run_oracle FILE LEAST   -- FILE was written by cases.py --record; fewer than LEAST decisions is a failure
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "policy/evaluate.h"

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define FAILURES_SHOWN 20

/* The definitions of earlier lines, in the order of the lines. */
struct pool {
    json_t *policies, *groups; /* arrays */
    size_t asked, decided, allowed, failed;
    int64_t deciding_us;
};

static void wrong(struct pool *pool, const char *line, const char *want, const char *have)
{
    if (pool->failed++ < FAILURES_SHOWN)
        (void)fprintf(stderr, "DIFFERS: %.600s\n  oracle: %.1500s\n  here:   %.1500s\n", line, want, have);
}

static json_t *chosen(const struct pool *pool, const json_t *numbers)
{
    json_t *array = json_array();

    for (size_t i = 0; i < json_array_size(numbers); i++) {
        const size_t number = (size_t)json_integer_value(json_array_get(numbers, i));
        if (json_array_append(array, json_array_get(pool->policies, number)) != 0) abort();
    }
    return array;
}

static struct result decide(struct pool *pool, const json_t *line, struct buffer *text, struct error *err)
{
    OWNED_JSON policies = chosen(pool, json_object_get(line, "decide"));
    OWNED(policy_documents) *documents = NULL;
    OWNED(policy_groups) *groups = NULL;
    OWNED(policy_facts_document) *facts = NULL;
    OWNED(policy_decision) *decision = NULL;
    int64_t number = 0;

    (void)json_integer_of(line, "groups", &number);
    TRY(policy_documents_new(policies, &documents, err));
    TRY(policy_groups_new(json_array_get(pool->groups, (size_t)number), &groups, err));
    TRY(policy_facts_read(json_object_get(line, "facts"), &facts, err));
    TRY(policy_evaluate(documents, policy_facts_of(facts), groups, &decision, err));
    policy_decision_free(GIVE(decision));
    TRY(policy_evaluate(documents, policy_facts_of(facts), groups, &decision,
                        err));               /* with what is known of the target by then */
    policy_facts_document_free(GIVE(facts)); /* the decision no longer needs them */
    pool->allowed += policy_decision_allows(decision);
    return policy_decision_write(text, decision, err);
}

static struct result join_floors(struct pool *pool, const json_t *line, struct buffer *text, struct error *err)
{
    OWNED_JSON policies = chosen(pool, json_object_get(line, "label"));
    const json_t *own = json_object_get(line, "own"), *stored = json_object_get(line, "stored");
    OWNED(policy_documents) *documents = NULL;
    struct label_query query = {.scope = json_text_of(line, "scope")};
    struct label own_label, stored_label, label;
    bool is_labelled = false;

    if (!policy_time_parse(bytes_of_text(json_text_of(line, "now")), &query.now_us)) abort();
    TRY(policy_documents_new(policies, &documents, err));
    query.documents = documents;
    if (!json_is_null(own)) TRY(label_read(own, &own_label, err));
    if (!json_is_null(stored)) TRY(label_read(stored, &stored_label, err));
    TRY(policy_stored_label(&query, json_is_null(stored) ? NULL : &stored_label, json_is_null(own) ? NULL : &own_label, &label,
                            &is_labelled, err));
    return is_labelled ? label_write(text, &label, err) : buffer_add_text(text, "null", err);
}

static struct result check_document(const json_t *line, struct buffer *text, struct error *err)
{
    OWNED(policy_document) *document = NULL;

    TRY(policy_document_new(json_object_get(line, "check"), &document, err));
    return buffer_add_text(text, "true", err);
}

static void ask(struct pool *pool, const char *raw, const json_t *line)
{
    struct buffer OWNED_BUFFER want = BUFFER(LINE_MAX_BYTES), have = BUFFER(LINE_MAX_BYTES);
    const json_t *wanted = json_object_get(line, "decision");
    struct error err = {0};
    struct result answered;

    pool->asked++;
    if (json_object_get(line, "decide") != NULL) {
        pool->decided++;
        answered = decide(pool, line, &have, &err);
    } else if (json_object_get(line, "label") != NULL) {
        wanted = json_object_get(line, "is");
        answered = join_floors(pool, line, &have, &err);
    } else {
        wanted = json_is_true(json_object_get(line, "valid")) ? json_true() : json_null();
        answered = check_document(line, &have, &err);
    }
    if (!json_write_canonical(&want, wanted, &err).ok) abort();
    if (!answered.ok && err.kind != ERROR_INVALID && err.kind != ERROR_LIMIT) abort();
    const bool is_refused = !answered.ok && json_is_null(wanted);
    if (!is_refused && (!answered.ok || strcmp(buffer_text(&want), buffer_text(&have)) != 0))
        wrong(pool, raw, buffer_text(&want), answered.ok ? buffer_text(&have) : err.message);
}

static void read_line(struct pool *pool, const char *raw, size_t length)
{
    OWNED_JSON line = NULL;
    struct error err = {0};

    if (!json_read((struct bytes){(const uint8_t *)raw, length}, LINE_MAX_BYTES, &line, &err).ok) {
        wrong(pool, raw, "a line of JSON", err.message);
        return;
    }
    json_t *policy = json_object_get(line, "policy"), *decided = json_object_get(line, "decide");
    if (policy != NULL) (void)json_array_append(pool->policies, policy);
    else if (decided == NULL && json_object_size(line) == 1)
        (void)json_array_append(pool->groups, json_object_get(line, "groups"));
    else ask(pool, raw, line);
}

int main(int argc, char **argv)
{
    struct pool pool = {.policies = json_array(), .groups = json_array()};
    uint64_t least = 0;
    char *line = NULL;
    size_t room = 0;

    if (argc != 3 || !text_to_u64(bytes_of_text(argv[2]), UINT32_MAX, &least)) return 2;
    FILE *file = fopen(argv[1], "re");
    if (file == NULL) return 2;
    for (ssize_t length; (length = getline(&line, &room, file)) > 0;) read_line(&pool, line, (size_t)length);
    (void)fclose(file);
    free(line);
    json_decref(pool.policies);
    json_decref(pool.groups);
    (void)printf("%zu asked, %zu decided (%zu allowed), %zu answers differ\n", pool.asked, pool.decided, pool.allowed,
                 pool.failed);
    return pool.failed > 0 || pool.decided < least;
}
