/* sijil-verify report: whether a residency report is the one that its evidence leads to, and a page the one of the report. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/log_keys.h"
#include "base/file.h"
#include "base/terminal_text.h"
#include "cmd/sijil_verify_report.h"
#include "policy/set_export.h"
#include "residency/residency.h"

#define REPORT_ENDING   ".json"
#define EVIDENCE_ENDING ".evidence.ndjson"

static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

/* NAME.json has NAME.evidence.ndjson beside it, and so has its second part, NAME.2.json. */
static struct result evidence_name(const struct report_request *request, size_t part, struct buffer *name, struct error *err)
{
    char suffix[32] = REPORT_ENDING;

    if (part > 1) (void)snprintf(suffix, sizeof suffix, ".%zu" REPORT_ENDING, part);
    const size_t length = strlen(request->file), ending = strlen(suffix);

    if (request->evidence != NULL) return buffer_add_text(name, request->evidence, err);
    if (length <= ending || strcmp(request->file + length - ending, suffix) != 0)
        return failure(err, ERROR_INVALID, "--evidence FILE is needed: the report is not called NAME%s", suffix);
    TRY(buffer_add(name, request->file, length - ending, err));
    return buffer_add_text(name, EVIDENCE_ENDING, err);
}

/* ---- the page ---- */

static bool is_same(const struct buffer *made, struct bytes page)
{
    return bytes_equal(buffer_bytes(made), page);
}

static size_t first_difference(struct bytes a, struct bytes b)
{
    size_t line = 1;

    for (size_t i = 0; i < a.length && i < b.length && a.data[i] == b.data[i]; i++) line += a.data[i] == '\n';
    return line;
}

/* A page follows from the report, byte for byte, in either language; so does the CSV. */
static struct result check_page(const json_t *report, const char *file, struct error *err)
{
    struct buffer OWNED_BUFFER page = BUFFER(RESIDENCY_PAGE_MAX), made = BUFFER(RESIDENCY_PAGE_MAX);
    size_t line = 0;

    TRY(file_read(file, &page, err));
    for (enum residency_language language = RESIDENCY_ENGLISH; language < RESIDENCY_LANGUAGES; language++) {
        buffer_clear(&made);
        TRY(as_verdict(residency_page(report, language, &made, err), err));
        if (is_same(&made, buffer_bytes(&page))) return SUCCESS;
        const size_t differs = first_difference(buffer_bytes(&made), buffer_bytes(&page));
        if (differs > line) line = differs;
    }
    buffer_clear(&made);
    TRY(as_verdict(residency_csv(report, &made, err), err));
    if (is_same(&made, buffer_bytes(&page))) return SUCCESS;
    const size_t differs = first_difference(buffer_bytes(&made), buffer_bytes(&page));
    return failure(err, ERROR_DENIED, "%.120s is no page of this report: line %zu is another one", file,
                   differs > line ? differs : line);
}

/* ---- the report ---- */

static struct result check_spelling(const json_t *report, struct bytes text, struct error *err)
{
    struct buffer OWNED_BUFFER made = BUFFER(RESIDENCY_REPORT_MAX);

    TRY(residency_write(report, &made, err));
    if (bytes_equal(buffer_bytes(&made), text)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the report is not spelt as reports are, so a page can't have its digest");
}

static struct result compare_with(const struct report_request *request, const struct residency_trust *trust, const json_t *report,
                                  struct residency_findings *findings, struct error *err)
{
    struct buffer OWNED_BUFFER name = BUFFER(8192);
    struct residency_question question;
    OWNED_JSON whole = NULL;
    OWNED_JSON right = NULL;

    TRY(residency_question_of(report, &question, err));
    TRY(evidence_name(request, question.part, &name, err));
    FILE *evidence = fopen(buffer_text(&name), "rbe");
    if (evidence == NULL) return failure(err, ERROR_NOT_FOUND, "%.180s can't be opened", buffer_text(&name));
    const struct result composed = residency_compose(evidence, trust, &question, &whole, findings, err);
    (void)fclose(evidence);
    TRY(as_verdict(composed, err));
    TRY(residency_part(whole, question.part, &right, err));
    return residency_compare(report, right, err);
}

static bool has_own_mapping(const json_t *report)
{
    const char *mapping = json_text_of(report, "mapping");

    return mapping != NULL && strcmp(mapping, residency_mapping()) == 0;
}

/* Nothing in the evidence leads to these rows: whoever made the report may have written anything into them. */
static struct result tell_controls(const json_t *report, struct buffer *answer, struct error *err)
{
    const char *mapping = json_text_of(report, "mapping");
    char shown[32];

    if (has_own_mapping(report)) return SUCCESS;
    (void)snprintf(shown, sizeof shown, "%s", mapping == NULL ? "no day" : mapping);
    terminal_sanitize(shown);
    return buffer_format(
        answer, err,
        "Not checked: the table of controls. Its mapping is of %s, and that of this program of %s, so it may say anything.\n",
        shown, residency_mapping());
}

/* Who signed what the decisions were made on. */
static struct result tell_signers(const struct report_request *request, const struct residency_findings *findings,
                                  const struct residency_trust *trust, struct buffer *answer, struct error *err)
{
    TRY(buffer_add_text(
        answer,
        request->root == NULL ? "\nNot checked, because --root was not given: who signed the policy sets.\n"
        : trust->sets == NULL
            ? "\nThe root has signed each policy set.\n"
            : "\nEach policy set was signed by the root, or by as many persons as must, counted from the root's key on.\n",
        err));
    if (trust->restrictions != NULL)
        return buffer_format(answer, err, "Of restrictions of %s those count that its security officers have signed.\n",
                             restriction_chain_organisation(trust->restrictions));
    if (findings->restrictions == 0) return SUCCESS;
    return buffer_add_text(
        answer,
        "Not checked: who signed the restrictions of the organisation. --set FILE, written by 'sijil policy export\n"
        "--organisation', shows it.\n",
        err);
}

static struct result tell(const struct report_request *request, const struct residency_trust *trust, const json_t *report,
                          const struct residency_findings *findings, struct buffer *answer, struct error *err)
{
    const bool is_whole = findings->lacking == 0, is_part = json_object_get(report, "part") != NULL;

    TRY(buffer_format(answer, err,
                      "%s: the residency report of %s follows from its evidence%s.\n\n"
                      "Proven, given the keys:\n"
                      "  - its %" PRIu64
                      " events are in the log %s, and none of the project is missing\n    if the writer of the log was honest;\n"
                      "  - each row of the report%s is what these events say;\n"
                      "  - %" PRIu64 " decisions were made again and agree, %" PRIu64 " differ, %" PRIu64
                      " can't be made again.\n",
                      is_whole ? "Verified" : "NOT COMPLETE", json_string_value(json_object_get(report, "project")),
                      is_whole ? "" : ", which is not whole", findings->export.events, findings->export.checkpoint.origin,
                      is_part ? " (of this part)" : "", findings->agree, findings->differ, findings->impossible));
    if (findings->differ > 0)
        TRY(buffer_format(answer, err, "    First to differ: event %" PRIu64 ": %s\n", findings->first, findings->what));
    if (!is_whole)
        TRY(buffer_format(answer, err,
                          "    The evidence lacks facts or the policy set of %" PRIu64
                          " events, which commit to them: places, readers,\n"
                          "    labels, rules and exceptions may be missing.\n",
                          findings->lacking));
    if (request->page != NULL) TRY(buffer_format(answer, err, "  - %.120s is a page of this report.\n", request->page));
    TRY(tell_signers(request, findings, trust, answer, err));
    TRY(tell_controls(report, answer, err));
    return buffer_add_text(
        answer,
        "Not proven: that no later set was in force without an event of the project, where bytes lay that the log does not name,\n"
        "and that a law is fulfilled: this is evidence for a review.\n",
        err);
}

static struct result tell_json(const json_t *report, const struct residency_findings *findings, struct buffer *answer,
                               struct error *err)
{
    OWNED_JSON value = json_pack("{s:b, s:b, s:O, s:O, s:I, s:I, s:I, s:I}", "verified", findings->lacking == 0,
                                 "controls_checked", has_own_mapping(report), "project", json_object_get(report, "project"),
                                 "at_time", json_object_get(report, "at_time"), "agree", (json_int_t)findings->agree, "differ",
                                 (json_int_t)findings->differ, "not_replayable", (json_int_t)findings->impossible, "lacking",
                                 (json_int_t)findings->lacking);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    TRY(json_write_canonical(answer, value, err));
    return buffer_add_u8(answer, '\n', err);
}

/* The file may be newer than the report: it has all sets before it. */
static struct result read_counted(const struct report_request *request, struct residency_trust *trust,
                                  struct set_export_report *counted, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);

    TRY(file_read(request->set, &text, err));
    TRY(as_verdict(set_export_check(buffer_bytes(&text), &trust->log, trust->root, counted, err), err));
    trust->sets = counted->chain;
    trust->restrictions = counted->restrictions;
    return SUCCESS;
}

struct result report_verify(const struct report_request *request, struct buffer *answer, bool *is_sound_out, struct error *err)
{
    struct residency_trust trust = {.log = {.vkey = bytes_of_text(request->key), .policy = request->policy}};
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_REPORT_MAX);
    struct residency_findings findings;
    __attribute__((cleanup(set_export_report_done))) struct set_export_report counted = {.set = NULL};
    OWNED(ecdsa_key) *root = NULL;
    OWNED_JSON report = NULL;
    struct log_keys keys;

    TRY(log_keys_read(trust.log.vkey, &keys, err));
    if (request->root != NULL) TRY(ecdsa_key_load(request->root, &root, err));
    trust.root = root;
    if (request->set != NULL) TRY(read_counted(request, &trust, &counted, err));
    TRY(file_read(request->file, &text, err));
    TRY(as_verdict(json_read(buffer_bytes(&text), RESIDENCY_REPORT_MAX, &report, err), err));
    TRY(compare_with(request, &trust, report, &findings, err));
    TRY(check_spelling(report, buffer_bytes(&text), err));
    if (request->page != NULL) TRY(check_page(report, request->page, err));
    *is_sound_out = findings.differ == 0 && findings.lacking == 0;
    return request->json ? tell_json(report, &findings, answer, err) : tell(request, &trust, report, &findings, answer, err);
}
