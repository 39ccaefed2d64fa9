/* Composes a report of what was taken: the proofs, and the tables. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "policy/document.h"
#include "policy/set_exceptions.h"
#include "residency/residency_priv.h"

#define STATEMENT \
    "Evidence for a review: what the log of the registry says about this project. It is no statement that a law or a standard is fulfilled."
#define COMPLETE "No event of the project is missing, if the writer of the log was honest."

/* ---- the moment ---- */

static int64_t moment_ms(const struct residency *residency)
{
    const struct export_report *export = &residency->findings.export;
    const int64_t until = (int64_t) export->terms.until; /* a time in the future is not reported on */

    if (export->terms.unit == EXPORT_BY_NUMBER) return until == EXPORT_NUMBER_MAX ? export->closing_ms : residency->last_ms;
    return until < export->closing_ms ? until : export->closing_ms;
}

static bool is_before_moment(const struct residency *residency, const struct residency_set *set)
{
    const struct export_report *export = &residency->findings.export;
    const uint64_t at = export->terms.unit == EXPORT_BY_TIME ? (uint64_t)set->loaded_ms : set->loaded;

    return at < export->terms.until && set->loaded <= export->closing;
}

/* The set under which the export was recorded may be a later one. */
static bool is_of_time(const struct residency *residency, const struct residency_set *set)
{
    return is_before_moment(residency, set) || json_object_get(residency->found[TABLE_SETS], policy_set_digest(set->set)) != NULL;
}

/* The newest set that was loaded before the moment. Sets are in the order of their events. */
static const struct residency_set *set_of_moment(const struct residency *residency)
{
    const struct residency_set *found = NULL;

    for (size_t i = 0; i < residency->findings.sets; i++)
        if (is_before_moment(residency, &residency->sets[i])) found = &residency->sets[i];
    return found;
}

/* ---- policy sets, with their rules and exceptions ---- */

static struct result add_epoch(json_t *row, const struct residency_set *set, struct error *err)
{
    json_t *epochs = json_object_get(row, "epochs");

    if (epochs == NULL) {
        TRY(residency_put(row, "epochs", json_array(), err));
        epochs = json_object_get(row, "epochs");
    }
    return json_array_append_new(epochs, json_integer((json_int_t)policy_set_epoch(set->set))) == 0 ? SUCCESS
                                                                                                    : residency_no_memory(err);
}

static struct result copy_members(const json_t *from, const char *const *members, json_t *row, struct error *err)
{
    for (; *members != NULL; members++) {
        json_t *value = json_object_get(from, *members);
        if (value != NULL && json_object_set(row, *members, value) != 0) return residency_no_memory(err);
    }
    return SUCCESS;
}

static struct result add_rule(struct residency *residency, const struct residency_set *set, const json_t *policy,
                              const json_t *rule, struct error *err)
{
    static const char *const members[] = {"effect", "ops", "when", "target", "label", "oblige", "message", "basis", NULL};
    const json_t *metadata = json_object_get(policy, "metadata");
    struct buffer OWNED_BUFFER key = BUFFER(POLICY_DOCUMENT_BYTES_MAX + 1024);
    json_t *row = NULL;

    TRY(buffer_format(&key, err, "%s@%" PRId64 "\n%s\n", json_text_of(metadata, "id"),
                      (int64_t)json_integer_value(json_object_get(metadata, "version")), json_text_of(rule, "id")));
    const size_t name = strcspn(buffer_text(&key), "\n");
    json_t *shown = json_stringn(buffer_text(&key), name);
    const struct result written = json_write_canonical(&key, rule, err);
    if (!written.ok) json_decref(shown);
    TRY(written);
    const struct result found = residency_row(residency, TABLE_RULES, buffer_text(&key), &row, err);
    if (!found.ok) json_decref(shown);
    TRY(found);
    TRY(residency_put(row, "policy", shown, err));
    TRY(residency_put_text(row, "rule", json_text_of(rule, "id"), err));
    if (json_object_set(row, "scope", json_object_get(metadata, "scope")) != 0) return residency_no_memory(err);
    TRY(copy_members(rule, members, row, err));
    return add_epoch(row, set, err);
}

static const char *state_of(const struct policy_exception_view *view, int64_t used)
{
    static const char *const words[][2] = {
        {"revoked", "revoked"}, {"ended", "ended"}, {"lifts-nothing", "lifts nothing"}, {"not-begun", "not yet in force"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(view->state, words[i][0]) == 0) return words[i][1];
    return used >= view->uses ? "used up" : "in force";
}

/* Counted from the events; a limit that the exception does not have is left out. */
static struct result put_uses(const struct residency *residency, const struct policy_exception_view *view, json_t *row,
                              int64_t *used_out, struct error *err)
{
    char key[sizeof "sha256:" + 2 * SHA256_SIZE] = "sha256:";

    text_hex(view->key, SHA256_SIZE, key + strlen("sha256:"));
    *used_out = json_integer_value(json_object_get(json_object_get(residency->uses, key), "count"));
    TRY(residency_put(row, "used", json_integer(*used_out), err));
    return view->uses == INT64_MAX ? SUCCESS : residency_put(row, "uses", json_integer(view->uses), err);
}

static struct result add_exception(struct residency *residency, const struct residency_set *set,
                                   const struct policy_exception_view *view, struct error *err)
{
    const json_t *exception = view->json;
    int64_t used = 0;
    static const char *const members[] = {"id",        "type",     "policy",     "lifts",     "ops",
                                          "targets",   "digests",  "not_before", "not_after", "requested_by",
                                          "approvals", "evidence", "revoked",    NULL};
    const char *project = json_text_of(exception, "project");
    struct buffer OWNED_BUFFER key = BUFFER(POLICY_DOCUMENT_BYTES_MAX);
    json_t *row = NULL;

    if (project == NULL || json_object_get(residency->projects, project) == NULL) return SUCCESS;
    TRY(json_write_canonical(&key, exception, err));
    TRY(residency_row(residency, TABLE_EXCEPTIONS, buffer_text(&key), &row, err));
    TRY(copy_members(exception, members, row, err));
    TRY(put_uses(residency, view, row, &used, err));
    const bool is_of_moment = set == set_of_moment(residency);
    if (is_of_moment || json_object_get(row, "state") == NULL)
        TRY(residency_put_text(row, "state", is_of_moment ? state_of(view, used) : "its set was replaced", err));
    return add_epoch(row, set, err);
}

static struct result add_parts(struct residency *residency, const struct residency_set *set, struct error *err)
{
    const json_t *json = policy_set_json(set->set), *policy = NULL, *rule = NULL;
    struct policy_exception_view view;
    size_t i = 0, j = 0;

    json_array_foreach (json_object_get(json, "policies"), i, policy)
        json_array_foreach (json_object_get(policy, "rules"), j, rule) TRY(add_rule(residency, set, policy, rule, err));
    for (i = 0; i < policy_set_exception_count(set->set); i++) {
        policy_set_exception(set->set, i, moment_ms(residency) * 1000, &view);
        TRY(add_exception(residency, set, &view, err));
    }
    return SUCCESS;
}

static struct result add_set(struct residency *residency, const struct residency_set *set, struct error *err)
{
    json_t *row = NULL;

    TRY(residency_row(residency, TABLE_SETS, policy_set_digest(set->set), &row, err));
    TRY(residency_put_text(row, "digest", policy_set_digest(set->set), err));
    TRY(residency_put(row, "epoch", json_integer((json_int_t)policy_set_epoch(set->set)), err));
    TRY(residency_put(row, "loaded", json_integer((json_int_t)set->loaded), err));
    TRY(residency_put_time(row, "loaded_at", set->loaded_ms, err));
    TRY(residency_put(row, "in_force", json_boolean(set == set_of_moment(residency)), err));
    if (json_object_set(row, "signatures", set->signatures) != 0) return residency_no_memory(err);
    return add_parts(residency, set, err);
}

/* ---- content: what was removed before the period is left out ---- */

static void finish_content(json_t *rows)
{
    for (size_t i = json_array_size(rows); i-- > 0;) {
        json_t *row = json_array_get(rows, i);
        const bool is_early = json_is_true(json_object_get(row, "#early"));
        (void)json_object_del(row, "#early");
        (void)json_object_del(row, "#request");
        (void)json_object_del(row, "#came");
        if (is_early) (void)json_array_remove(rows, i);
    }
}

/* ---- all of it ---- */

static struct result put_bound(json_t *report, const char *member, enum export_unit unit, uint64_t bound, struct error *err)
{
    return residency_put(report, member, json_pack("{s:s, s:I}", "unit", export_unit_name(unit), "value", (json_int_t)bound),
                         err);
}

static struct result put_proof(const struct residency *residency, struct bytes note, const char *evidence, json_t *report,
                               struct error *err)
{
    const struct export_report *export = &residency->findings.export;
    OWNED_JSON proof =
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:s, s:s}", "origin", export->checkpoint.origin, "closing",
                  (json_int_t) export->closing, "closing_set", residency->closing_set, "nonce", export->terms.nonce, "key",
                  export->terms.key, "events", (json_int_t) export->events, "evidence", evidence, "complete", COMPLETE);

    if (proof == NULL) return residency_no_memory(err);
    TRY(residency_put(proof, "checkpoint", json_stringn((const char *)note.data, note.length), err));
    return json_object_set(report, "proof", proof) == 0 ? SUCCESS : residency_no_memory(err);
}

static struct result put_decisions(const struct residency_findings *findings, json_t *report, struct error *err)
{
    OWNED_JSON decisions =
        json_pack("{s:I, s:I, s:I, s:I}", "agree", (json_int_t)findings->agree, "differ", (json_int_t)findings->differ,
                  "not_replayable", (json_int_t)findings->impossible, "lacking", (json_int_t)findings->lacking);

    if (decisions == NULL) return residency_no_memory(err);
    if (findings->differ > 0) {
        TRY(residency_put(decisions, "first", json_integer((json_int_t)findings->first), err));
        TRY(residency_put_text(decisions, "what", findings->what, err));
    }
    return json_object_set(report, "decisions", decisions) == 0 ? SUCCESS : residency_no_memory(err);
}

static struct result put_head(const struct residency *residency, json_t *report, struct error *err)
{
    const struct export_terms *terms = &residency->findings.export.terms;

    TRY(residency_put_text(report, "apiVersion", "sijil.report/v1", err));
    TRY(residency_put_text(report, "kind", RESIDENCY_KIND, err));
    TRY(residency_put_text(report, "statement", STATEMENT, err));
    TRY(residency_put_text(report, "project", residency->project, err));
    TRY(residency_put_text(report, "mapping", residency_mapping(), err));
    TRY(put_bound(report, "at", terms->unit, terms->until, err));
    TRY(put_bound(report, "from", residency->question.unit, residency->question.from, err));
    return residency_put_time(report, "at_time", moment_ms(residency), err);
}

struct result residency_report(struct residency *residency, struct bytes note, const char *evidence, json_t **report_out,
                               struct error *err)
{
    OWNED_JSON report = json_object();

    for (size_t i = 0; i < residency->findings.sets; i++)
        if (is_of_time(residency, &residency->sets[i])) TRY(add_set(residency, &residency->sets[i], err));
    finish_content(residency->tables[TABLE_CONTENT]);
    TRY(residency_add_controls(residency, err));
    TRY(put_head(residency, report, err));
    TRY(put_proof(residency, note, evidence, report, err));
    TRY(put_decisions(&residency->findings, report, err));
    for (enum residency_table table = 0; table < TABLE_COUNT; table++)
        if (json_object_set(report, residency_table_name(table), residency->tables[table]) != 0) return residency_no_memory(err);
    *report_out = GIVE(report);
    return SUCCESS;
}

struct result residency_write(const json_t *report, struct buffer *text, struct error *err)
{
    TRY(json_write_canonical(text, report, err));
    return buffer_add_u8(text, '\n', err);
}
