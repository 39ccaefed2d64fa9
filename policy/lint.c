#include "policy/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "policy/lint_priv.h"
#include "policy/no_memory_priv.h"
#include "policy/restriction.h"

static const struct {
    const char *name, *way_out;
    enum policy_finding_level level;
} codes[] = {
#define X(constant, code, of_level, way_out_text) [constant] = {code, way_out_text, of_level},
    POLICY_FINDINGS(X)
#undef X
};

const char *policy_finding_name(enum policy_finding_code code)
{
    return codes[code].name;
}

const char *policy_finding_way_out(enum policy_finding_code code)
{
    return codes[code].way_out;
}

enum policy_finding_level policy_finding_level(enum policy_finding_code code)
{
    return codes[code].level;
}

static bool copy_text(struct policy_findings *findings, const char **text)
{
    *text = arena_copy_text(findings->arena, bytes_of_text(*text == NULL ? "" : *text));
    return *text != NULL;
}

struct result findings_add(struct policy_findings *findings, const struct policy_finding *finding, struct error *err)
{
    struct policy_finding kept = *finding;

    if (findings->count == FINDINGS_MAX) return SUCCESS;
    if (!copy_text(findings, &kept.policy) || !copy_text(findings, &kept.rule) || !copy_text(findings, &kept.about) ||
        !copy_text(findings, &kept.what))
        return policy_no_memory(err);
    if (findings->count == findings->room) {
        const size_t room = findings->room == 0 ? 16 : 2 * findings->room;
        struct policy_finding *grown = memory_resize(findings->findings, room * sizeof *grown);
        if (grown == NULL) return policy_no_memory(err);
        findings->findings = grown;
        findings->room = room;
    }
    findings->findings[findings->count++] = kept;
    return SUCCESS;
}

struct result findings_say(struct policy_findings *findings, struct policy_finding finding, struct error *err, const char *what,
                           ...)
{
    char text[512]; /* a sentence, with names of at most 300 bytes that are cut where they are longer */
    va_list arguments;

    va_start(arguments, what);
    (void)vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    finding.what = text;
    return findings_add(findings, &finding, err);
}

static int compare_findings(const void *a, const void *b)
{
    const struct policy_finding *left = a, *right = b;
    const enum policy_finding_level left_level = codes[left->code].level, right_level = codes[right->code].level;

    if (left_level != right_level) return left_level > right_level ? -1 : 1;
    const char *const texts[][2] = {
        {left->policy, right->policy}, {left->rule, right->rule}, {left->about, right->about}, {left->what, right->what}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int order = strcmp(texts[i][0], texts[i][1]);
        if (order != 0) return order;
    }
    return (left->code > right->code) - (left->code < right->code);
}

static bool is_nearly(size_t count, size_t most)
{
    return count > most / 4 * 3;
}

/* Those that count for the room of a set: it has been joined with the restrictions of an organisation, perhaps. */
static size_t count_own(const struct policy_documents *documents)
{
    size_t count = 0;

    for (size_t i = 0; i < documents->count; i++) count += documents->documents[i]->organisation == NULL;
    return count;
}

/* Whoever adds to a set learns of its limits before the set is refused. */
static struct result lint_room(struct policy_findings *findings, const struct policy_linted *linted, struct error *err)
{
    const struct policy_finding finding = {.code = FINDING_NEARLY_FULL};
    const size_t policies = count_own(linted->set->documents), room = POLICY_COUNT_MAX - POLICY_RESTRICTIONS_MAX;
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);

    if (is_nearly(policies, room))
        TRY(findings_say(findings, finding, err, "the set has %zu policies, and there is room for %zu", policies, room));
    TRY(policy_set_write(linted->set, &text, err));
    if (!is_nearly(text.length, POLICY_SET_BYTES_MAX)) return SUCCESS;
    return findings_say(findings, finding, err, "the set has %zu bytes, and there is room for %d", text.length,
                        POLICY_SET_BYTES_MAX);
}

struct result policy_lint(const struct policy_linted *linted, struct policy_findings **findings_out, struct error *err)
{
    OWNED(policy_findings) *findings = memory_zeroed(1, sizeof *findings);

    if (findings == NULL) return policy_no_memory(err);
    TRY(arena_new(ANALYSIS_BYTES_MAX, &findings->arena, err));
    TRY(lint_rules(findings, linted, err));
    TRY(lint_names(findings, linted, err));
    TRY(lint_dates(findings, linted, err));
    TRY(lint_room(findings, linted, err));
    if (findings->count > 0) qsort(findings->findings, findings->count, sizeof *findings->findings, compare_findings);
    *findings_out = GIVE(findings);
    return SUCCESS;
}

size_t policy_findings_count(const struct policy_findings *findings)
{
    return findings->count;
}

const struct policy_finding *policy_findings_at(const struct policy_findings *findings, size_t index)
{
    return &findings->findings[index];
}

void policy_findings_free(struct policy_findings *findings)
{
    if (findings == NULL) return;
    arena_free(findings->arena);
    free(findings->findings);
    free(findings);
}
