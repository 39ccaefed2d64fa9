/* What the gateway's user does before a gateway runs: it has signed documents recorded and pinned. */
#include <stdio.h>

#include "audit/job_permit.h"
#include "audit/query.h"
#include "documents/change.h"
#include "embedded/enrolment_priv.h"
#include "policy/decider/set_load.h"

#define KEYD_TIMEOUT 5000

static const struct pg_table *const tables[] = {&document_table, &policy_set_table, &audit_tree_table, NULL};

struct result office_open(const struct settings *settings, struct office *office, struct error *err)
{
    struct sequencer_options options = {
        .conninfo = settings->database, .tables = tables, .deadline_ms = (unsigned)settings->record_timeout};

    TRY(keyd_client_new(settings->keyd_socket, KEYD_TIMEOUT, &office->keyd, err));
    TRY(keyd_identify(office->keyd, &office->identity, err));
    TRY(pg_open(settings->database, tables, &office->pg, err));
    options.keyd = office->keyd;
    (void)snprintf(options.origin, sizeof options.origin, "%s", office->identity.origin);
    (void)snprintf(options.instance, sizeof options.instance, "%.50s.runner",
                   settings->instance); /* the gateway has the plain name */
    TRY(sequencer_start(&options, &office->sequencer, err));
    return document_view_new(&office->view, err);
}

void office_close(struct office *office)
{
    document_view_free(office->view);
    sequencer_free(office->sequencer);
    pg_free(office->pg);
    keyd_client_free(office->keyd);
}

struct result office_record(struct office *office, enum action action, const struct paper papers[2], struct error *err)
{
    const struct bytes envelopes[2] = {paper_bytes(&papers[0]), paper_bytes(&papers[1])};
    const size_t count = papers[1].length == 0 ? 1 : 2;
    const struct action_pair pair = {.action = action, .resource.kind = RESOURCE_SYSTEM};
    OWNED(document) *document = NULL;
    struct document_change change;
    struct record record;

    TRY(document_read(envelopes, count, &document, err));
    const struct document_row row = {action, document, envelopes, count, "system"};
    document_change_init(&change, &row, false);
    TRY(record_prepare_for_job(&pair, &change.change, &record, err));
    sequencer_submit_and_wait(office->sequencer, &record);
    const struct error why = record.error;
    const bool is_done = record.status == RECORD_DONE;
    record_done(&record);
    return is_done ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "a document could not be recorded: %.180s", why.message);
}
