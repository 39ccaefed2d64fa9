/* `sijil report residency`: where the bytes, keys and readers of a project were, with the evidence that proves it (docs/formats/residency-report.md). */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "client/terminal.h"
#include "crypto/random.h"
#include "policy/set_export.h"
#include "residency/residency.h"

#define FACTS_MAX 100000 /* different ones of a project: they are in memory */
#define PATH_SIZE 4096   /* PATH_MAX */

/* Files of one report: NAME.evidence.ndjson, NAME.json, NAME.csv, NAME.en.html, NAME.ar.html. */
struct making {
    struct invocation *invocation;
    struct session *session;
    const char *project;
    char name[PATH_SIZE - 32];
    char path[PATH_SIZE]; /* of the evidence */
    int fd;
    uint64_t length, number; /* of the evidence; of the closing entry */
    struct residency_question question;
    struct export_terms asked;
    struct export_check *check;
    struct ecdsa_key *root;
    struct set_export_report counted; /* --set: the sets of the registry, as their signatures were counted */
    json_t *facts, *sets;             /* objects: what was written; digests of policy sets that events name */
};

static void making_done(struct making *making)
{
    export_check_free(making->check);
    set_export_report_done(&making->counted);
    ecdsa_key_free(making->root);
    session_free(making->session);
    json_decref(making->facts);
    json_decref(making->sets);
    file_close_owned(&making->fd);
}
#define OWNED_MAKING __attribute__((cleanup(making_done))) struct making

static struct result append(struct making *making, struct bytes text, struct error *err)
{
    TRY(local_output(file_write_at(making->fd, text.data, text.length, making->length, err), making->path, err));
    making->length += text.length;
    return SUCCESS;
}

/* ---- the export ---- */

/* An earlier project of this name had events, too, which are nobody's any more: the export begins with the first one that may be seen. */
static struct result begin_with_project(struct making *making, json_t *body, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON page = NULL;
    int64_t first = 0;
    char text[CLOCK_TEXT_SIZE];

    TRY(buffer_format(&path, err, "/audit/events?order=ascending&limit=1&key=prj:%s", making->project));
    TRY(audit_add_within(making->invocation, '&', &path, err));
    TRY(audit_advised(making->invocation, making->session,
                      api_call_in(making->session, "GET", buffer_text(&path), NULL, &page, err), err));
    const json_t *event = json_array_get(json_object_get(page, "events"), 0), *entry = json_object_get(event, "entry");
    const bool is_time = making->asked.unit == EXPORT_BY_TIME;
    if (!json_integer_of(is_time ? entry : event, is_time ? "ts" : "seq", &first) || first < 0)
        return failure(err, ERROR_NOT_FOUND, "the log has no event of %.80s that you may see", making->project);
    making->asked.from = (uint64_t)first;
    clock_format(first, text);
    if (!is_time) (void)snprintf(text, sizeof text, "%" PRId64, first);
    if (making->asked.from >= making->asked.until)
        return failure(err, ERROR_NOT_FOUND, "--at is before all that you may see of %.80s: its first event is %s",
                       making->project, text);
    return json_object_set_new(body, "from", json_string(text)) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result make_question(struct making *making, json_t *body, struct error *err)
{
    const struct invocation *invocation = making->invocation;
    const char *within = invocation_option(invocation, 'w');
    struct buffer OWNED_BUFFER at = BUFFER(512), from = BUFFER(512);
    uint8_t random[EXPORT_NONCE_MAX / 2];

    random_bytes(random, sizeof random);
    text_hex(random, sizeof random, making->asked.nonce);
    (void)snprintf(making->asked.key, sizeof making->asked.key, "prj:%s", making->project);
    making->asked.until = EXPORT_NUMBER_MAX;
    TRY(audit_time_of(invocation_option(invocation, 't'), &at, err));
    TRY(audit_time_of(invocation_option(invocation, 'f'), &from, err));
    TRY(audit_read_bound("at", &at, &making->asked.until, &making->asked.unit, err));
    TRY(audit_read_bound("from", &from, &making->question.from, &making->question.unit, err));
    TRY(begin_with_project(making, body, err));
    if (json_object_set_new(body, "key", json_string(making->asked.key)) != 0 ||
        json_object_set_new(body, "nonce", json_string(making->asked.nonce)) != 0 ||
        (within != NULL && json_object_set_new(body, "within", json_string(within)) != 0) ||
        (at.length > 0 && json_object_set_new(body, "to", json_string(buffer_text(&at))) != 0))
        return api_no_memory(err);
    return SUCCESS;
}

static struct result begin_export(struct making *making, struct error *err)
{
    OWNED_JSON body = json_object();
    OWNED_JSON answer = NULL;
    int64_t number = 0;

    if (body == NULL) return api_no_memory(err);
    TRY(make_question(making, body, err));
    TRY(audit_advised(making->invocation, making->session,
                      api_call_in(making->session, "POST", "/audit/exports", body, &answer, err), err));
    if (!json_integer_of(answer, "number", &number) || number < 0)
        return failure(err, ERROR_INVALID, "the registry answered without the number of the export");
    making->number = (uint64_t)number;
    return SUCCESS;
}

static struct result fetch_lines(struct making *making, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    uint64_t last = 0;

    TRY(buffer_format(&path, err, "/api/v1/audit/exports/%" PRIu64 "/lines?format=ndjson", making->number));
    TRY(audit_add_within(making->invocation, '&', &path, err));
    if (export_check_last(making->check, &last))
        TRY(buffer_format(&path, err, "&after=%" PRIu64 "&size=%" PRIu64, last, export_check_size(making->check)));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(session_call(making->session, ADMIN_SCOPE, &request, &response, err));
    const struct bytes lines = buffer_bytes(&response.body);
    TRY(export_check_bytes(making->check, lines, err));
    const struct export_head *head = export_check_head(making->check);
    if (head == NULL || lines.length == 0 || export_check_pending(making->check) > 0)
        return failure(err, ERROR_INVALID, "the registry answered without a whole line of the export");
    if (head->closing != making->number || !export_terms_equal(&head->terms, &making->asked))
        return failure(err, ERROR_CORRUPT, "the registry answered another question: its export has another key, range or nonce");
    return append(making, lines, err);
}

static struct result fetch_export(struct making *making, struct error *err)
{
    const char *log_key = invocation_option(making->invocation, 'K');
    const struct proof_trust trust = {.vkey = bytes_of_text(log_key == NULL ? "" : log_key)};

    TRY(local(export_check_new(&trust, &making->check, err), "--log-key", err));
    TRY(begin_export(making, err));
    while (!export_check_is_complete(making->check)) TRY(fetch_lines(making, err));
    return SUCCESS;
}

/* ---- facts, and the names of policy sets ---- */

static struct result write_facts(struct making *making, const json_t *facts, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_LINE_MAX), line = BUFFER(RESIDENCY_LINE_MAX);

    TRY(json_write_canonical(&text, facts, err));
    if (json_object_get(making->facts, buffer_text(&text)) != NULL) return SUCCESS;
    if (json_object_size(making->facts) == FACTS_MAX)
        return failure(err, ERROR_LIMIT, "the project has more than %d different facts: ask for an earlier moment", FACTS_MAX);
    if (json_object_set_new(making->facts, buffer_text(&text), json_true()) != 0) return api_no_memory(err);
    TRY(residency_facts_line(buffer_bytes(&text), &line, err));
    return append(making, buffer_bytes(&line), err);
}

static struct result visit(void *context, const json_t *event, struct error *err)
{
    struct making *making = context;
    const json_t *entry = json_object_get(event, "entry"), *facts = NULL;
    const char *set = json_text_of(json_object_get(entry, "why"), "policy");
    size_t i = 0;

    if ((uint64_t)number_of(event, "seq") > making->number) return SUCCESS; /* this report's own requests */
    if (set != NULL && json_object_set_new(making->sets, set, json_true()) != 0) return api_no_memory(err);
    json_array_foreach (json_object_get(event, "facts"), i, facts)
        if (json_is_object(facts)) TRY(write_facts(making, facts, err));
    return SUCCESS;
}

static struct result fetch_facts(struct making *making, struct error *err)
{
    const struct audit_visitor visitor = {.visit = visit, .context = making};
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    struct audit_searched searched;

    making->facts = json_object();
    making->sets = json_object();
    if (making->facts == NULL || making->sets == NULL) return api_no_memory(err);
    TRY(buffer_format(&path, err, "/audit/events?order=ascending&facts=true&key=prj:%s", making->project));
    TRY(audit_add_within(making->invocation, '&', &path, err));
    const struct audit_query query = {.path = buffer_text(&path), .is_ascending = true};
    return audit_fetch_events(making->invocation, making->session, &query, &visitor, &searched, err);
}

/* ---- policy sets ---- */

static bool is_before_moment(const struct making *making, const json_t *set)
{
    const char *loaded = json_text_of(set, "loaded");
    int64_t loaded_ms = 0;

    if (making->asked.unit == EXPORT_BY_NUMBER)
        return (uint64_t)number_of(set, "event") < making->asked.until && (uint64_t)number_of(set, "event") < making->number;
    return loaded != NULL && clock_parse(bytes_of_text(loaded), &loaded_ms) && (uint64_t)loaded_ms < making->asked.until;
}

static struct result fetch_set(struct making *making, int64_t event, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(1024), line = BUFFER(SET_EXPORT_BARE_MAX + 64);

    TRY(buffer_format(&path, err, "/api/v1/reports/residency/sets/%" PRId64, event));
    TRY(audit_add_within(making->invocation, '?', &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(session_call(making->session, ADMIN_SCOPE, &request, &response, err));
    TRY(residency_set_line(buffer_bytes(&response.body), &line, err));
    return append(making, buffer_bytes(&line), err);
}

static struct result list_sets(struct making *making, json_t *rows, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(buffer_add_text(&path, "/reports/residency/sets?limit=16", err));
    TRY(audit_add_within(making->invocation, '&', &path, err));
    return api_collect(making->session, buffer_text(&path), "sets", (size_t)100 * RESIDENCY_SETS_MAX, rows, err);
}

/* Those that events name, and the newest one before the moment. */
static struct result fetch_sets(struct making *making, struct error *err)
{
    OWNED_JSON rows = json_array();
    size_t newest = SIZE_MAX;

    if (rows == NULL) return api_no_memory(err);
    TRY(list_sets(making, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (is_before_moment(making, json_array_get(rows, i))) newest = i;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *digest = json_text_of(row, "digest");
        if (i == newest || (digest != NULL && json_object_get(making->sets, digest) != NULL))
            TRY(fetch_set(making, number_of(row, "event"), err));
    }
    return SUCCESS;
}

/* Whoever may read the sets of the registry has exported them; an auditor of a project may not. */
static struct result read_counted(struct making *making, struct error *err)
{
    const char *path = invocation_option(making->invocation, 'S');
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);

    if (path == NULL) return SUCCESS;
    if (making->root == NULL)
        return failure(err, ERROR_INVALID, "--set is for --root: its signatures are counted from the root's key on");
    TRY(local(file_read(path, &text, err), path, err));
    return local(set_export_open(buffer_bytes(&text), making->root, &making->counted, err), path, err);
}

/* ---- restrictions of the organisation ---- */

static bool is_hidden(const struct error *why)
{
    return why->kind == ERROR_DENIED || why->kind == ERROR_NOT_FOUND;
}

static struct result write_restriction(struct making *making, const json_t *link, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(RESIDENCY_LINE_MAX);
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    OWNED(document) *document = NULL;
    struct set_chain_link read;

    TRY(policy_link_read(link, envelopes, &read, err));
    TRY(document_read(envelopes, read.count, &document, err));
    if (document->kind != DOCUMENT_RESTRICTION || document->is_withdrawn) return SUCCESS;
    TRY(residency_restriction_line(document_payload(document), &line, err));
    return append(making, buffer_bytes(&line), err);
}

/* Without the right to read them, decisions that name one are lacking it. */
static struct result fetch_restrictions(struct making *making, struct error *err)
{
    char organisation[DOCUMENT_SCOPE_SIZE];
    OWNED_JSON links = NULL;
    struct error why = {0};

    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)strcspn(making->project, "/"), making->project);
    const struct result fetched = restriction_links_fetch(making->session, organisation, NULL, &links, &why);
    if (!fetched.ok && is_hidden(&why)) return SUCCESS;
    if (!fetched.ok) return failure(err, why.kind, "%s", why.message);
    for (size_t i = 0; i < json_array_size(links); i++) TRY(write_restriction(making, json_array_get(links, i), err));
    return SUCCESS;
}

/* ---- the report ---- */

/* NAME.json, and of the second part NAME.2.json. */
static struct result write_file(const struct making *making, size_t part, const char *ending, const struct buffer *text,
                                struct error *err)
{
    char path[PATH_SIZE], number[24] = "";

    if (part > 1) (void)snprintf(number, sizeof number, ".%zu", part);
    (void)snprintf(path, sizeof path, "%s%s%s", making->name, number, ending);
    return local_output(file_replace(path, buffer_bytes(text), 0600, err), path, err);
}

static struct result write_part(const struct making *making, const json_t *whole, size_t part, struct error *err)
{
    OWNED_JSON report = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_REPORT_MAX), csv = BUFFER(RESIDENCY_PAGE_MAX);
    struct buffer OWNED_BUFFER english = BUFFER(RESIDENCY_PAGE_MAX), arabic = BUFFER(RESIDENCY_PAGE_MAX);

    TRY(residency_part(whole, part, &report, err));
    TRY(residency_write(report, &text, err));
    TRY(residency_csv(report, &csv, err));
    TRY(residency_page(report, RESIDENCY_ENGLISH, &english, err));
    TRY(residency_page(report, RESIDENCY_ARABIC, &arabic, err));
    TRY(write_file(making, part, ".json", &text, err));
    TRY(write_file(making, part, ".csv", &csv, err));
    TRY(write_file(making, part, ".en.html", &english, err));
    return write_file(making, part, ".ar.html", &arabic, err);
}

static struct result write_all(const struct making *making, const json_t *report, struct error *err)
{
    const size_t parts = residency_parts(report);

    for (size_t part = 1; part <= parts; part++) TRY(write_part(making, report, part, err));
    if (parts > 1 && !making->invocation->json)
        (void)printf("The report has %zu parts, each with files of its own: %s.json, %s.2.json, ...\n", parts, making->name,
                     making->name);
    return SUCCESS;
}

static struct result tell(const struct making *making, const json_t *report, const struct residency_findings *findings,
                          struct error *err)
{
    if (making->invocation->json) return api_print_json(report, err);
    (void)printf("%s.json: evidence for a review of %s, as of %s\n", making->name, making->project,
                 json_text_of(report, "at_time"));
    (void)printf("%" PRIu64 " events; policy sets: %zu; decisions made again: %" PRIu64 " the same, %" PRIu64
                 " different, %" PRIu64 " not replayable\n",
                 findings->export.events, findings->sets, findings->agree, findings->differ, findings->impossible);
    if (findings->lacking > 0)
        (void)printf("NOT COMPLETE: the registry gave no facts or no policy set of %" PRIu64 " events; rows are missing\n",
                     findings->lacking);
    if (findings->differ > 0) (void)printf("first to differ: event %" PRIu64 ": %s\n", findings->first, findings->what);
    (void)printf("To print: %s.en.html, %s.ar.html; for a spreadsheet: %s.csv\n", making->name, making->name, making->name);
    (void)printf(
        "Check it, on any machine: sijil-verify report --key VKEY --root ROOT.pem --set SET.json %s.json; SET.json is of 'sijil policy export'\n",
        making->name);
    return SUCCESS;
}

static struct result compose(struct making *making, struct error *err)
{
    const char *log_key = invocation_option(making->invocation, 'K');
    const struct residency_trust trust = {.log = {.vkey = bytes_of_text(log_key == NULL ? "" : log_key)},
                                          .root = making->root,
                                          .sets = making->counted.chain,
                                          .restrictions = making->counted.restrictions};
    struct residency_findings findings;
    OWNED_JSON report = NULL;

    FILE *evidence = fopen(making->path, "rbe");
    if (evidence == NULL) return failure(err, ERROR_INVALID, "%.180s can't be read", making->path);
    const struct result composed = residency_compose(evidence, &trust, &making->question, &report, &findings, err);
    (void)fclose(evidence);
    TRY(composed);
    TRY(write_all(making, report, err));
    return tell(making, report, &findings, err);
}

static struct result check_line(struct making *making, struct error *err)
{
    const char *name = invocation_option(making->invocation, 'o');
    const char *slash = strchr(making->project, '/');

    if (slash == NULL || slash[1] == '\0' || strchr(slash + 1, '/') != NULL || strpbrk(making->project, "?&#% ") != NULL)
        return failure(err, ERROR_INVALID, "%.80s: a project is organisation/project", making->project);
    if (name == NULL)
        return failure(err, ERROR_INVALID, "--output NAME is needed: a report is several files, whose names begin so");
    if (strlen(name) >= sizeof making->name) return failure(err, ERROR_INVALID, "the name of the files is too long");
    (void)snprintf(making->name, sizeof making->name, "%s", name);
    (void)snprintf(making->path, sizeof making->path, "%s.evidence.ndjson", name);
    return audit_check_times(making->invocation, "tf", err);
}

static struct result fetch_all(struct making *making, struct error *err)
{
    TRY(fetch_export(making, err));
    TRY(fetch_facts(making, err));
    TRY(fetch_sets(making, err));
    TRY(fetch_restrictions(making, err));
    return local_output(file_sync(making->fd, err), making->path, err);
}

struct result command_report_residency(struct invocation *invocation, struct error *err)
{
    OWNED_MAKING making = {.invocation = invocation, .project = invocation->operands[1], .fd = -1};

    const char *root = invocation_option(invocation, 'R');

    TRY(line_check(invocation, check_line(&making, err)));
    if (root != NULL) TRY(local(ecdsa_key_load(root, &making.root, err), root, err));
    TRY(line_check(invocation, read_counted(&making, err)));
    TRY(command_session(invocation, invocation->operands[0], &making.session, err));
    const struct result opened = file_open(making.path, O_RDWR | O_CREAT | O_EXCL, 0600, &making.fd, err);
    if (!opened.ok && err->kind == ERROR_CONFLICT)
        return failure(err, ERROR_CONFLICT, "%.180s is there, and a report replaces no evidence: give another --output",
                       making.path);
    TRY(local_output(opened, making.path, err));
    const struct result fetched = fetch_all(&making, err);
    if (!fetched.ok) (void)unlink(making.path);
    TRY(fetched);
    return compose(&making, err);
}
