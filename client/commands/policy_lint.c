/* `sijil policy lint`: what is probably wrong in a policy set. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_source_priv.h"
#include "policy/lint.h"

#define DAYS_MAX 36500 /* a hundred years */

static const char *const level_names[] = {[FINDING_NOTE] = "note", [FINDING_WARNING] = "warning", [FINDING_ERROR] = "error"};

static void print_finding(const struct policy_source *source, const struct policy_finding *finding)
{
    const unsigned line = finding->policy[0] == '\0' ? 0 : policy_source_line(source, finding->policy, finding->rule);

    (void)printf("%s:", source->name);
    if (line > 0) (void)printf("%u:", line);
    (void)printf(" %s: ", level_names[policy_finding_level(finding->code)]);
    if (finding->policy[0] != '\0') (void)printf("%s", finding->policy);
    if (finding->rule[0] != '\0') (void)printf(" %s", finding->rule);
    if (finding->about[0] != '\0') {
        (void)printf("%s(", finding->policy[0] == '\0' ? "" : " ");
        policy_source_print(finding->about);
        (void)printf(")");
    }
    (void)printf(": ");
    policy_source_print(finding->what);
    (void)printf(" [%s]\n    %s\n", policy_finding_name(finding->code), policy_finding_way_out(finding->code));
}

static json_t *finding_json(const struct policy_source *source, const struct policy_finding *finding)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i}", "level", level_names[policy_finding_level(finding->code)],
                     "code", policy_finding_name(finding->code), "policy", finding->policy, "rule", finding->rule, "about",
                     finding->about, "what", finding->what, "try", policy_finding_way_out(finding->code), "line",
                     (int)(finding->policy[0] == '\0' ? 0 : policy_source_line(source, finding->policy, finding->rule)));
}

static struct result print(const struct invocation *invocation, const struct policy_source *source,
                           const struct policy_findings *findings, struct error *err)
{
    OWNED_JSON rows = json_array();

    for (size_t i = 0; i < policy_findings_count(findings); i++) {
        const struct policy_finding *finding = policy_findings_at(findings, i);
        if (!invocation->json) print_finding(source, finding);
        else if (json_array_append_new(rows, finding_json(source, finding)) != 0) return api_no_memory(err);
    }
    return invocation->json ? api_print_json(rows, err) : SUCCESS;
}

static struct result conclude(struct invocation *invocation, const struct policy_findings *findings, struct error *err)
{
    size_t counts[] = {0, 0, 0};

    for (size_t i = 0; i < policy_findings_count(findings); i++)
        counts[policy_finding_level(policy_findings_at(findings, i)->code)]++;
    if (counts[FINDING_ERROR] + counts[FINDING_WARNING] > 0) {
        invocation->ends_with = EXIT_FAILED;
        return failure(err, ERROR_INVALID, "%zu errors and %zu warnings", counts[FINDING_ERROR], counts[FINDING_WARNING]);
    }
    if (!invocation->json) (void)printf("Nothing is wrong (%zu notes).\n", counts[FINDING_NOTE]);
    return SUCCESS;
}

static struct result days_option(struct invocation *invocation, unsigned *days_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'd');
    uint64_t days = POLICY_LINT_DAYS;

    if (text != NULL && !text_to_u64(bytes_of_text(text), DAYS_MAX, &days))
        return line_check(invocation, failure(err, ERROR_INVALID, "--days %.30s: a whole number of days expected", text));
    *days_out = (unsigned)days;
    return SUCCESS;
}

static struct result lint(struct invocation *invocation, const struct policy_source *source, struct policy_linted *linted,
                          struct error *err)
{
    OWNED(policy_findings) *findings = NULL;

    TRY(policy_lint(linted, &findings, err));
    TRY(print(invocation, source, findings, err));
    return conclude(invocation, findings, err);
}

/* The names of the projects that this login may see: a scope without any of them may have others. */
static struct result lint_with_projects(struct invocation *invocation, const struct policy_source *source,
                                        struct policy_linted *linted, struct error *err)
{
    OWNED_JSON rows = json_array();

    if (rows == NULL) return api_no_memory(err);
    TRY(api_get_pages(invocation, "/projects", "projects", SIZE_MAX, rows, err));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    const char **names = memory_zeroed(json_array_size(rows) + 1, sizeof *names);
    if (names == NULL) return api_no_memory(err);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *name = json_text_of(json_array_get(rows, i), "name");
        if (name != NULL) names[linted->project_count++] = name;
    }
    linted->projects = names;
    const struct result linted_all = lint(invocation, source, linted, err);
    free(names);
    return linted_all;
}

struct result command_policy_lint(struct invocation *invocation, struct error *err)
{
    struct policy_source OWNED_SOURCE source = {.name = NULL};
    struct policy_linted linted = {.now_us = clock_wall_ms() * 1000};

    TRY(days_option(invocation, &linted.ending_days, err));
    TRY(policy_source_read(invocation, invocation->operands[0], &source, err));
    linted.set = source.set;
    return source.is_registry ? lint_with_projects(invocation, &source, &linted, err) : lint(invocation, &source, &linted, err);
}
