/*
 * enrol_tool CONNINFO KEYD-SOCKET ENVELOPE-FILE...: records the document of a runner or a trust rule as a gateway does, and has sijil-keyd pin it. Prints
 * the runner's certificate (PEM), unless the document withdraws the runner. For tests of runners, whose subject is not the enrolment; and of a gateway that
 * somebody has taken over, which makes none of the checks of a gateway. Fails with keyd's reason if keyd does not pin it.
 */
#include <stdio.h>
#include <string.h>

#include "audit/decision_make.h"
#include "audit/query.h"
#include "base/file.h"
#include "crypto/runner_certificate.h"
#include "documents/change.h"
#include "documents/prove.h"

#define ENVELOPE_BYTES (64 * 1024)
#define PEM_BYTES      4096

static const struct pg_table *const tables[] = {&document_table, &audit_tree_table, NULL};

struct tool {
    struct keyd_client *keyd;
    struct keyd_identity identity;
    struct sequencer *sequencer;
    struct pg *pg;
    struct document_view *view;
    struct buffer texts[DOCUMENT_SIGNATURES_MAX];
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    size_t count;
    struct document *document;
};

static struct result open_all(struct tool *tool, char **argv, struct error *err)
{
    struct sequencer_options options = {.conninfo = argv[1], .tables = tables, .instance = "enrol-tool"};

    TRY(keyd_client_new(argv[2], 5000, &tool->keyd, err));
    TRY(keyd_identify(tool->keyd, &tool->identity, err));
    options.keyd = tool->keyd;
    (void)snprintf(options.origin, sizeof options.origin, "%s", tool->identity.origin);
    TRY(sequencer_start(&options, &tool->sequencer, err));
    TRY(pg_open(argv[1], tables, &tool->pg, err));
    return document_view_new(&tool->view, err);
}

static struct result read_document(struct tool *tool, int count, char **names, struct error *err)
{
    for (int i = 0; i < count && tool->count < DOCUMENT_SIGNATURES_MAX; i++) {
        struct buffer *text = &tool->texts[tool->count];
        *text = BUFFER(ENVELOPE_BYTES);
        TRY(file_read(names[i], text, err));
        tool->envelopes[tool->count++] = buffer_bytes(text);
    }
    return document_read(tool->envelopes, tool->count, &tool->document, err);
}

/* A decision as old as the log, so nothing makes it stale: the server's own. */
static struct result record(struct tool *tool, enum action action, struct change *change, struct permit **permit_out,
                            struct error *err)
{
    const char *scope = tool->document->scope;
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = UINT64_MAX, .pair_count = 1};
    struct record record = {.change = change};

    parts.pairs[0].action = action;
    if (scope[0] != '\0') parts.pairs[0].resource.kind = RESOURCE_PROJECT;
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", scope);
    TRY(decision_make(&parts, &record.decision, err));
    sequencer_submit_and_wait(tool->sequencer, &record);
    const struct error why = record.error;
    const enum record_status status = record.status;
    if (status == RECORD_DONE) *permit_out = GIVE(record.permit);
    record_done(&record);
    return status == RECORD_DONE ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "%s", why.message);
}

static struct result certify(struct tool *tool, uint64_t sequence, struct error *err)
{
    const struct document_proof_query query = {ACTION_RUNNER_CERTIFY, "", DOCUMENT_RUNNER, sequence};
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX), pem = BUFFER(PEM_BYTES);
    OWNED(document_proof) *proof = NULL;
    OWNED(permit) *permit = NULL;

    TRY(record(tool, ACTION_RUNNER_CERTIFY, NULL, &permit, err));
    TRY(document_prove(permit, tool->pg, tool->view, &query, &proof, err));
    TRY(keyd_certify_runner(tool->keyd, &proof->request, &der, err));
    TRY(runner_certificate_pem(buffer_bytes(&der), &pem, err));
    (void)fputs(buffer_text(&pem), stdout);
    return SUCCESS;
}

static enum action action_of(const struct document *document)
{
    if (document->kind == DOCUMENT_TRUST_RULE) return document->is_withdrawn ? ACTION_RULE_REVOKE : ACTION_RULE_APPROVE;
    return document->is_withdrawn ? ACTION_RUNNER_REVOKE : ACTION_RUNNER_APPROVE;
}

static struct result enrol(struct tool *tool, struct error *err)
{
    const bool is_certified = tool->document->kind == DOCUMENT_RUNNER && !tool->document->is_withdrawn;
    const struct document_source source = {tool->pg, tool->keyd, tool->sequencer};
    const struct document_row row = {action_of(tool->document), tool->document, tool->envelopes, tool->count, "robot$tool"};
    struct document_change change;
    OWNED(permit) *permit = NULL;

    document_change_init(&change, &row, false);
    TRY(record(tool, row.action, &change.change, &permit, err));
    TRY(document_view_refresh(tool->view, &source, err));
    TRY(document_view_check_event(tool->view, tool->document->kind, permit_sequence(permit), err));
    return is_certified ? certify(tool, permit_sequence(permit), err) : SUCCESS;
}

int main(int argc, char **argv)
{
    static struct tool tool;
    struct error err = {0};

    if (argc < 4) {
        (void)fputs("usage: enrol_tool CONNINFO KEYD-SOCKET ENVELOPE-FILE...\n", stderr);
        return 2;
    }
    struct result done = open_all(&tool, argv, &err);
    if (done.ok) done = read_document(&tool, argc - 3, argv + 3, &err);
    if (done.ok) done = enrol(&tool, &err);
    if (!done.ok) (void)fprintf(stderr, "enrol_tool: %s\n", err.message);
    document_free(tool.document);
    for (size_t i = 0; i < tool.count; i++) buffer_done(&tool.texts[i]);
    document_view_free(tool.view);
    pg_free(tool.pg);
    sequencer_free(tool.sequencer);
    keyd_client_free(tool.keyd);
    return done.ok ? 0 : 1;
}
