/* `sijil policy diff`: what one policy set allows that another denies. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/commands/policy_source_priv.h"
#include "policy/compare.h"
#include "policy/evaluate.h"

#define NEW_IDS_MAX 64 /* the most policies of a set */

/* Targets of exceptions are any text. */
static void print_named(const char *before, const char *text, const char *after)
{
    if (text[0] == '\0') return;
    (void)printf("%s", before);
    policy_source_print(text);
    (void)printf("%s", after);
}

void policy_operations_print(FILE *stream, uint32_t operations)
{
    const uint32_t all = (1U << OP_COUNT) - 1;
    const char *gap = "";

    if (operations == all) (void)fprintf(stream, "every operation");
    for (unsigned op = 0; op < OP_COUNT && operations != all; op++) {
        if ((operations >> op & 1) == 0) continue;
        (void)fprintf(stream, "%s%s", gap, policy_operation_name(1U << op));
        gap = ", ";
    }
}

/* "rule R of p@1", with the line of a file if it is known */
static void print_rule(const char *before, const struct policy_source *source, const char *policy, const char *rule)
{
    const unsigned line = policy_source_line(source, policy, rule);

    (void)printf("    %s %s of %s", before, rule, policy);
    if (line > 0) (void)printf(" (%s:%u)", source->name, line);
    (void)printf("\n");
}

static void print_cell(const char *title, const json_t *value)
{
    char cell[CELL_MAX];

    cell_text(value, cell);
    if (json_object_size(value) > 0) (void)printf(", %s %s", title, cell);
}

/* A label without what is empty: "class=open subjects=health". */
static void print_label(const json_t *label)
{
    OWNED_JSON shown = json_object();
    const char *name = NULL;
    json_t *value = NULL;

    if (json_is_null(label)) {
        (void)printf(", without a label of its own");
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)label, name, value)
        if (!json_is_array(value) || json_array_size(value) > 0) (void)json_object_set(shown, name, value);
    print_cell("own label", shown);
}

static void print_example(const struct policy_difference *difference)
{
    const json_t *witness = difference->witness;
    const json_t *was = json_object_get(json_object_get(witness, "old"), "target"),
                 *is = json_object_get(json_object_get(witness, "new"), "target");

    if (witness == NULL) return;
    (void)printf("    example: %s of %s", json_text_of(witness, "op"), json_text_of(witness, "scope"));
    print_label(json_object_get(witness, "label"));
    if (json_equal(was, is) && json_object_size(is) == 0) (void)printf(", of a target of which nothing is known");
    print_cell("target", is);
    if (!json_equal(was, is)) print_cell("which was", was);
    (void)printf("\n");
}

static void print_reasons(const struct policy_difference *difference, const struct policy_source *old,
                          const struct policy_source *new)
{
    switch (difference->change) {
    case POLICY_NEWLY_ALLOWED:
        print_rule("denied until now by", old, difference->old_policy, difference->old_rule);
        print_rule("now permitted by", new, difference->new_policy, difference->new_rule);
        break;
    case POLICY_NEWLY_DENIED:
        print_rule("permitted until now by", old, difference->old_policy, difference->old_rule);
        print_rule("now denied by", new, difference->new_policy, difference->new_rule);
        break;
    case POLICY_DUTY_FALLS: print_rule("demanded until now by", old, difference->old_policy, difference->old_rule); break;
    case POLICY_DUTY_RISES: print_rule("now demanded by", new, difference->new_policy, difference->new_rule); break;
    case POLICY_TYPE_WIDENED: print_rule("exception type", new, difference->new_policy, difference->new_rule); break;
    case POLICY_DECLASSIFIED: (void)printf("    labels under %s\n", difference->new_policy); break;
    case POLICY_RECORD_DEMANDS_LESS:
    case POLICY_DOUBT: break;
    }
    print_named("    ", difference->detail, "\n");
}

static void print_difference(const struct policy_difference *difference, int64_t now_us, const struct policy_source *old,
                             const struct policy_source *new)
{
    char from[CLOCK_TEXT_SIZE];

    (void)printf("%-9s %s: ", policy_change_loosens(difference->change) ? "LOOSENS" : "tightens",
                 policy_change_name(difference->change));
    policy_operations_print(stdout, difference->operations);
    print_named(" on ", difference->scope, "");
    print_named(" in ", difference->target_id, "");
    clock_format(difference->from_us / 1000, from);
    if (difference->from_us > now_us + 1000) (void)printf(", from %s", from);
    (void)printf("\n");
    print_reasons(difference, old, new);
    print_example(difference);
}

static size_t count_loosenings(const struct policy_comparison *comparison)
{
    size_t count = 0;

    for (size_t i = 0; i < policy_comparison_count(comparison); i++)
        count += policy_change_loosens(policy_comparison_at(comparison, i)->change);
    return count;
}

static struct result print_json(const struct policy_comparison *comparison, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER((size_t)64 * 1024 * 1024);
    OWNED_JSON value = NULL;

    TRY(policy_comparison_write(comparison, &text, err));
    TRY(json_read(buffer_bytes(&text), text.maximum, &value, err));
    return api_print_json(value, err);
}

static struct result conclude(struct invocation *invocation, const struct policy_comparison *comparison, struct error *err)
{
    const size_t count = policy_comparison_count(comparison), loosenings = count_loosenings(comparison);

    if (count == 0) {
        if (!invocation->json) (void)printf("Both sets allow, deny and demand the same.\n");
        return SUCCESS;
    }
    invocation->ends_with = EXIT_FAILED;
    if (loosenings == 0) return failure(err, ERROR_INVALID, "the sets differ in %zu ways; none of them loosens", count);
    return failure(err, ERROR_INVALID, "the sets differ in %zu ways; %zu of them loosen%s", count, loosenings,
                   loosenings == 1 ? "s" : "");
}

static struct result compare(struct invocation *invocation, const struct policy_source *old, const struct policy_source *new,
                             struct error *err)
{
    const char *ids[NEW_IDS_MAX], *id = NULL;
    struct policy_compared compared = {
        .old_set = old->set, .new_set = new->set, .now_us = clock_wall_ms() * 1000, .unused_ids = ids};
    OWNED(policy_comparison) *comparison = NULL;
    unsigned at = 0;

    while ((id = invocation_next_option(invocation, 'n', &at)) != NULL) {
        if (compared.unused_id_count == NEW_IDS_MAX)
            return line_check(invocation, failure(err, ERROR_INVALID, "too many --new-id"));
        ids[compared.unused_id_count++] = id;
    }
    TRY(policy_compare(&compared, &comparison, err));
    if (invocation->json) TRY(print_json(comparison, err));
    for (size_t i = 0; i < policy_comparison_count(comparison) && !invocation->json; i++)
        print_difference(policy_comparison_at(comparison, i), compared.now_us, old, new);
    return conclude(invocation, comparison, err);
}

struct result command_policy_diff(struct invocation *invocation, struct error *err)
{
    struct policy_source OWNED_SOURCE old = {.name = NULL};
    struct policy_source OWNED_SOURCE new = {.name = NULL};

    TRY(policy_source_read(invocation, invocation->operands[0], &old, err));
    TRY(policy_source_read(invocation, invocation->operands[1], &new, err));
    return compare(invocation, &old, &new, err);
}
