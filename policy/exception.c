/* Compiles exceptions: dated permissions to break named rules of one version of one policy. evaluate.c applies them. */
#include <string.h>

#include "base/memory.h"
#include "policy/compiled_priv.h"
#include "policy/evaluate.h"

static bool is_same_person(const json_t *a, const json_t *b)
{
    return strcmp(json_text_of(a, "iss"), json_text_of(b, "iss")) == 0 &&
           strcmp(json_text_of(a, "sub"), json_text_of(b, "sub")) == 0;
}

/* Each person counts once, and the requester does not count. */
static size_t count_approvers(const json_t *approvals, const json_t *requester)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(approvals); i++) {
        const json_t *person = json_array_get(approvals, i);
        bool counts = !is_same_person(person, requester);
        for (size_t j = 0; j < i && counts; j++) counts = !is_same_person(person, json_array_get(approvals, j));
        count += counts;
    }
    return count;
}

static struct result compile_exception(struct policy_exception *exception, struct error *err)
{
    const json_t *json = exception->json, *policy = json_object_get(json, "policy");
    const json_t *uses_left = json_object_get(json, "uses_left");

    exception->id = json_text_of(json, "id");
    exception->type = json_text_of(json, "type");
    exception->policy_id = json_text_of(policy, "id");
    exception->policy_digest = json_text_of(policy, "digest");
    exception->policy_version = json_integer_value(json_object_get(policy, "version"));
    (void)uuid_parse(bytes_of_text(json_text_of(json, "project")), &exception->project); /* the shapes have read */
    (void)policy_time_parse(bytes_of_text(json_text_of(json, "not_before")), &exception->not_before_us);
    (void)policy_time_parse(bytes_of_text(json_text_of(json, "not_after")), &exception->not_after_us);
    exception->uses_left = uses_left == NULL ? 1 : json_integer_value(uses_left);
    exception->uses = uses_left == NULL ? INT64_MAX : exception->uses_left;
    exception->is_revoked = json_is_true(json_object_get(json, "revoked"));
    exception->approver_count = count_approvers(json_object_get(json, "approvals"), json_object_get(json, "requested_by"));
    exception->evidence = json_object_get(json, "evidence");
    TRY(compile_texts(exception->arena, json_object_get(json, "lifts"), &exception->lifts, err));
    TRY(compile_texts(exception->arena, json_object_get(json, "targets"), &exception->targets, err));
    return compile_texts(exception->arena, json_object_get(json, "digests"), &exception->digests, err);
}

static struct result read_exception(struct policy_exception *exception, struct error *err)
{
    struct error problem = {0};

    TRY(canonical_copy(exception->json, POLICY_DOCUMENT_BYTES_MAX, &exception->canonical, err));
    sha256_of(bytes_of_text(exception->canonical), exception->key);
    if (shape_check(&shape_exception, exception->json, "exception", &problem).ok &&
        compile_operations(exception->json, json_object_get(exception->json, "ops"), "exception", &exception->operations,
                           &problem)
            .ok)
        return compile_exception(exception, err);
    if (problem.kind != ERROR_INVALID) return failure(err, problem.kind, "%s", problem.message);
    memcpy(exception->problem, problem.message, sizeof exception->problem);
    return SUCCESS;
}

struct result policy_exception_new(json_t *json, struct policy_exception **exception_out, struct error *err)
{
    OWNED(policy_exception) *exception = memory_zeroed(1, sizeof *exception);

    if (exception == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an exception");
    TRY(arena_new(POLICY_ARENA_MAX, &exception->arena, err));
    exception->json = json_incref(json);
    TRY(read_exception(exception, err));
    *exception_out = GIVE(exception);
    return SUCCESS;
}

const char *policy_exception_problem(const struct policy_exception *exception)
{
    return exception->problem[0] == '\0' ? NULL : exception->problem;
}

void policy_exception_free(struct policy_exception *exception)
{
    if (exception == NULL) return;
    arena_free(exception->arena);
    json_decref(exception->json);
    free(exception->canonical);
    free(exception);
}
