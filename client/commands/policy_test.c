/* `sijil policy test`: a file of expectations about a policy set. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_expectations_priv.h"
#include "client/commands/policy_source_priv.h"
#include "client/local.h"
#include "policy/expectation.h"

#define REASONS_SIZE 400 /* some rules; the rest is cut */

struct testing {
    struct invocation *invocation;
    const struct policy_source *source;
    const struct expectations *expectations;
    const char *name; /* of the file */
    int64_t now_us;
    size_t asked, failed;
    json_t *rows;
};

/* "R of p@1, S of q@2", or the permit. */
static void reasons(const struct policy_expectation_answer *answer, char text[REASONS_SIZE])
{
    const char *policy = NULL, *permit = policy_decision_permit(answer->decision, &policy);
    size_t used = 0;

    text[0] = '\0';
    if (answer->allows)
        (void)snprintf(text, REASONS_SIZE, "%.80s of %.120s", permit == NULL ? "-" : permit, policy == NULL ? "-" : policy);
    for (size_t i = 0; i < policy_decision_denial_count(answer->decision) && used < REASONS_SIZE; i++) {
        const struct policy_denial *denial = policy_decision_denial(answer->decision, i);
        used +=
            (size_t)snprintf(text + used, REASONS_SIZE - used, "%s%s of %s", i == 0 ? "" : ", ", denial->rule, denial->policy);
    }
}

static void print_failure(const struct testing *testing, size_t index, const json_t *test, enum policy_operation op,
                          const struct policy_expectation_answer *answer)
{
    const char *rule = json_text_of(test, "rule");
    const bool has_policy = json_object_get(test, "policy") != NULL;
    const unsigned line = expectations_line(testing->expectations, index);
    char text[REASONS_SIZE], name[CELL_MAX], policy[CELL_MAX];

    reasons(answer, text);
    cell_text(json_object_get(test, "name"), name);
    cell_text(json_object_get(test, "policy"), policy);
    if (line > 0) (void)printf("%s:%u: ", testing->name, line);
    else (void)printf("%s: test %zu: ", testing->name, index + 1);
    (void)printf("%s: %s: %s by %s; expected: %s%s%s%s%s\n", name, policy_operation_name(op),
                 answer->allows ? "allowed" : "denied", text, json_text_of(test, "expect"), rule == NULL ? "" : " by ",
                 rule == NULL ? "" : rule, has_policy ? " of " : "", has_policy ? policy : "");
}

static struct result note(struct testing *testing, size_t index, const json_t *test, enum policy_operation op,
                          const struct policy_expectation_answer *answer, struct error *err)
{
    char text[REASONS_SIZE];

    testing->asked++;
    testing->failed += !answer->holds;
    reasons(answer, text);
    json_t *row = json_pack("{s:O, s:i, s:s, s:b, s:b, s:s}", "name", json_object_get(test, "name"), "line",
                            (int)expectations_line(testing->expectations, index), "op", policy_operation_name(op), "holds",
                            answer->holds ? 1 : 0, "allowed", answer->allows ? 1 : 0, "by", text);
    if (json_array_append_new(testing->rows, row) != 0) return api_no_memory(err);
    if (!answer->holds && !testing->invocation->json) print_failure(testing, index, test, op, answer);
    return SUCCESS;
}

static struct result ask(struct testing *testing, size_t index, const json_t *test, enum policy_operation op, struct error *err)
{
    struct policy_expectation_answer OWNED_ANSWER answer = {.decision = NULL};
    const unsigned line = expectations_line(testing->expectations, index);
    struct error why = {0};

    if (!policy_expectation_ask(testing->source->set, test, op, testing->now_us, &answer, &why).ok)
        return line_check(testing->invocation, failure(err, why.kind, "%.120s:%u: %.300s", testing->name, line, why.message));
    return note(testing, index, test, op, &answer, err);
}

static struct result ask_all(struct testing *testing, struct error *err)
{
    const json_t *tests = json_object_get(testing->expectations->document, "tests");
    const char *now = json_text_of(testing->expectations->document, "now");

    testing->now_us = clock_wall_ms() * 1000;
    if (now != NULL) (void)policy_time_parse(bytes_of_text(now), &testing->now_us); /* the shapes have read it */
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i);
        const uint32_t operations = policy_expectation_operations(test);
        for (unsigned op = 0; op < OP_COUNT; op++)
            if ((operations >> op & 1) != 0) TRY(ask(testing, i, test, (enum policy_operation)(1U << op), err));
    }
    return SUCCESS;
}

static struct result conclude(struct testing *testing, struct error *err)
{
    if (testing->invocation->json) TRY(api_print_json(testing->rows, err));
    else (void)printf("%zu of %zu expectations hold\n", testing->asked - testing->failed, testing->asked);
    if (testing->failed == 0) return SUCCESS;
    testing->invocation->ends_with = EXIT_FAILED;
    return failure(err, ERROR_INVALID, "%zu of %zu expectations do not hold", testing->failed, testing->asked);
}

struct result command_policy_test(struct invocation *invocation, struct error *err)
{
    const char *name = invocation->operands[1];
    struct policy_source OWNED_SOURCE source = {.name = NULL};
    struct expectations OWNED_EXPECTATIONS expectations = {.document = NULL};
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_EXPECTATIONS_BYTES_MAX);
    OWNED_JSON rows = json_array();
    struct testing testing = {
        .invocation = invocation, .source = &source, .expectations = &expectations, .name = name, .rows = rows};

    if (rows == NULL) return api_no_memory(err);
    TRY(local(file_read(name, &text, err), name, err));
    TRY(line_check(invocation, expectations_parse(buffer_bytes(&text), name, &expectations, err)));
    TRY(policy_source_read(invocation, invocation->operands[0], &source, err));
    TRY(ask_all(&testing, err));
    return conclude(&testing, err);
}
