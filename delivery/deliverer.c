#include "delivery/deliverer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/archive.h"
#include "audit/audit_store.h"
#include "audit/job_permit.h"
#include "base/json.h"
#include "base/memory.h"
#include "delivery/peer_priv.h"
#include "delivery/sink_store_priv.h"

#define OVERLAP       512  /* events that are sent again over a new connection of syslog, whose peer confirms nothing by itself */
#define STOPPED_AFTER 4    /* attempts that the peer did not take; after this an event says that it stopped */
#define FIRST_WAIT_MS 1000 /* after a failure; then twice as long each time */
#define LONGEST_MS    60000
#define LOOK_MS       500  /* until the next look for new events */
#define OTHER_MS      3000 /* until the next try for the lock that another gateway has */

struct deliverer {
    struct deliverer_options options;
    struct peer_options peer_options;
    struct document *document;
    struct audit_sink sink; /* views into the document */
    uint64_t sequence;      /* of the document's event */
    struct pg *pg;
    struct peer *peer;
    struct delivery_batch *batch;
    struct sink_state state;
    uint64_t at;    /* the next event that is sent; before state.next after a new connection */
    uint64_t until; /* where the batch from `at` on ended that was not taken; 0: there was none. So it has the same id again */
    bool is_holder; /* with this connection to the database */
    struct audit_span opened; /* the last events whose names the log says to have left */
    unsigned failures;        /* in a row */
};

static struct result open_peer(struct deliverer *deliverer, struct error *err)
{
    static struct result (*const makers[SINK_TRANSPORT_COUNT])(const struct peer_options *, struct peer **, struct error *) = {
        [SINK_SYSLOG] = peer_syslog_new, [SINK_WEBHOOK] = peer_webhook_new, [SINK_FILE] = peer_file_new};
    const struct deliverer_options *options = &deliverer->options;

    deliverer->peer_options = (struct peer_options){.sink = &deliverer->sink,
                                                    .name = deliverer->document->name,
                                                    .origin = options->log_name,
                                                    .folder = options->folder,
                                                    .certificate = options->certificate,
                                                    .key = options->key,
                                                    .gives_up = options->gives_up,
                                                    .keyd = options->keyd,
                                                    .pg = deliverer->pg};
    return makers[deliverer->sink.transport](&deliverer->peer_options, &deliverer->peer, err);
}

struct result deliverer_new(const struct deliverer_options *options, const struct pinned_document *pinned,
                            struct deliverer **deliverer_out, struct error *err)
{
    static const struct pg_table *const tables[] = {&sink_table,          &audit_query_table,   &audit_tree_table,
                                                    &audit_subject_table, &audit_archive_table, NULL};
    struct buffer OWNED_BUFFER payload = BUFFER(AUDIT_SINK_BYTES_MAX);
    OWNED(deliverer) *deliverer = memory_zeroed(1, sizeof *deliverer);

    if (deliverer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a sink");
    deliverer->options = *options;
    deliverer->sequence = pinned->sequence;
    TRY(json_write_canonical(&payload, pinned->document->json, err)); /* a copy of a document has no envelopes */
    TRY(document_read_payload(DOCUMENT_AUDIT_SINK, buffer_bytes(&payload), &deliverer->document, err));
    TRY(audit_sink_read(deliverer->document, &deliverer->sink, err));
    TRY(delivery_batch_new(&deliverer->batch, err));
    TRY(pg_open_lazily(options->conninfo, tables, &deliverer->pg, err));
    TRY(open_peer(deliverer, err));
    *deliverer_out = GIVE(deliverer);
    return SUCCESS;
}

const char *deliverer_name(const struct deliverer *deliverer)
{
    return deliverer->document->name;
}

/* ---- the lock ---- */

static void go_back(struct deliverer *deliverer, uint64_t to)
{
    deliverer->at = to;
    deliverer->until = 0;
}

/* The lock belongs to the connection. The state is read again, because another gateway may have moved it. */
static struct result hold(struct deliverer *deliverer, struct error *err)
{
    if (pg_is_broken(deliverer->pg)) {
        deliverer->is_holder = false;
        TRY(pg_reopen(deliverer->pg, err));
    }
    if (!deliverer->is_holder) TRY(sink_lock(deliverer->pg, deliverer->document->name, &deliverer->is_holder, err));
    if (!deliverer->is_holder) return SUCCESS;
    const uint64_t before = deliverer->state.next;
    TRY(sink_open(deliverer->pg, deliverer->document->name, deliverer->sequence, &deliverer->state, err));
    if (deliverer->state.next != before || deliverer->at < deliverer->state.first) go_back(deliverer, deliverer->state.next);
    return SUCCESS;
}

/* ---- events about the sink ---- */

static struct action_pair pair_of(const struct deliverer *deliverer, enum action action, const char *more)
{
    struct action_pair pair = {.action = action, .resource.kind = RESOURCE_SYSTEM};

    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%.63s%s%.60s", deliverer->document->name,
                   more[0] == '\0' ? "" : " ", more);
    return pair;
}

/* Another gateway, or an earlier life of this one, may have said it already. */
static struct result record_turn(struct deliverer *deliverer, enum action action, const char *problem, struct error *err)
{
    const struct action_pair pair = pair_of(deliverer, action, "");
    struct sink_turn turn;
    struct record record;

    sink_turn_init(&turn, action, deliverer->document->name, problem);
    TRY(record_prepare_for_job(&pair, &turn.change, &record, err));
    sequencer_submit_and_wait(deliverer->options.sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE || (status == RECORD_REFUSED && why.kind == ERROR_CONFLICT)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the state of a sink can't be recorded: %.200s", why.message);
}

/* Before names of persons leave. Its own event has no name, so there is an end to it. */
static struct result record_opening(struct deliverer *deliverer, struct error *err)
{
    const struct delivery_batch *batch = deliverer->batch;
    OWNED(permit) *permit = NULL;
    char range[48];

    if (batch->opened == 0 || (batch->from >= deliverer->opened.from && batch->next <= deliverer->opened.until)) return SUCCESS;
    (void)snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, batch->from, batch->next - 1);
    const struct action_pair pair = pair_of(deliverer, ACTION_SINK_OPEN, range);
    TRY(permit_for_job(deliverer->options.sequencer, &pair, &permit, err));
    deliverer->opened = (struct audit_span){batch->from, batch->next};
    return SUCCESS;
}

/* ---- a batch ---- */

/* For each attempt anew: while a peer takes nothing, policies change and persons are erased. */
static struct result fill(struct deliverer *deliverer, const struct signed_checkpoint *checkpoint, struct error *err)
{
    const struct deliverer_options *options = &deliverer->options;
    const struct delivery_source source = {deliverer->pg,   options->decider,  options->keyd,
                                           options->origin, options->log_name, &deliverer->sink};

    const bool is_again = deliverer->until != 0 && deliverer->until < checkpoint->size;
    const struct audit_span span = {deliverer->at, is_again ? deliverer->until : checkpoint->size};

    TRY(delivery_batch_fill(deliverer->batch, &source, checkpoint, &span, err));
    deliverer->until = deliverer->batch->next;
    return record_opening(deliverer, err);
}

/* A peer that confirms nothing may have lost what was sent last over the connection before. */
static struct result reach(struct deliverer *deliverer, struct peer_outcome *outcome, struct error *err)
{
    const struct sink_state *state = &deliverer->state;
    bool is_new = false;

    TRY(deliverer->peer->reach(deliverer->peer, &is_new, outcome, err));
    if (!is_new) return SUCCESS;
    go_back(deliverer, state->next - state->first > OVERLAP ? state->next - OVERLAP : state->first);
    return SUCCESS;
}

static struct result send_next(struct deliverer *deliverer, const struct signed_checkpoint *checkpoint,
                               struct peer_outcome *outcome, struct error *err)
{
    TRY(reach(deliverer, outcome, err));
    if (!outcome->is_taken) return SUCCESS;
    TRY(fill(deliverer, checkpoint, err));
    return deliverer->peer->send(deliverer->peer, deliverer->batch, &deliverer->state, outcome, err);
}

/* What this side can't read, as an archived entry whose region is away, stops a sink as its peer does: else nobody would hear of it. */
static struct result attempt(struct deliverer *deliverer, const struct signed_checkpoint *checkpoint,
                             struct peer_outcome *outcome, struct error *err)
{
    struct error why = {0};

    if (send_next(deliverer, checkpoint, outcome, &why).ok) return SUCCESS;
    if (why.kind == ERROR_FORKED || pg_is_broken(deliverer->pg)) return failure(err, why.kind, "%s", why.message);
    peer_refuse(outcome, "on this side: %.250s", why.message);
    return SUCCESS;
}

static struct result take(struct deliverer *deliverer, struct deliverer_report *report, struct error *err)
{
    const struct delivery_batch *batch = deliverer->batch;
    struct sink_state *state = &deliverer->state;

    if (batch->next > state->next) {
        TRY(sink_advance(deliverer->pg, state->name, state->next, batch->next, err));
        state->next = batch->next;
    }
    report->withheld = batch->withheld;
    report->delivered = batch->next - batch->from - batch->withheld;
    go_back(deliverer, batch->next);
    deliverer->failures = 0;
    if (state->stopped_ms == 0) return SUCCESS;
    TRY(record_turn(deliverer, ACTION_SINK_RETURN, "", err));
    state->stopped_ms = 0;
    return SUCCESS;
}

static struct result refuse(struct deliverer *deliverer, const struct peer_outcome *outcome, struct deliverer_report *report,
                            struct error *err)
{
    int64_t wait_ms = FIRST_WAIT_MS;

    for (unsigned i = 0; i < deliverer->failures && wait_ms < LONGEST_MS; i++) wait_ms *= 2;
    if (wait_ms > LONGEST_MS) wait_ms = LONGEST_MS;
    if ((int64_t)outcome->wait_s * 1000 > wait_ms) wait_ms = (int64_t)outcome->wait_s * 1000;
    report->wait_ms = wait_ms;
    report->has_failed = true;
    (void)snprintf(report->problem, sizeof report->problem, "%s", outcome->problem);
    deliverer->failures++;
    if (deliverer->failures < STOPPED_AFTER || deliverer->state.stopped_ms != 0) return SUCCESS;
    TRY(record_turn(deliverer, ACTION_SINK_STOP, report->problem, err));
    deliverer->state.stopped_ms = 1; /* until the state is read again */
    return SUCCESS;
}

static struct result deliver(struct deliverer *deliverer, const struct signed_checkpoint *checkpoint,
                             struct deliverer_report *report, struct error *err)
{
    struct peer_outcome outcome = {.is_taken = false};

    report->wait_ms = LOOK_MS;
    if (deliverer->state.next > checkpoint->size)
        return failure(err, ERROR_UNAVAILABLE, "the sink %.63s is ahead of the signed log", deliverer->state.name);
    report->lag = checkpoint->size - deliverer->state.next;
    if (report->lag == 0) return SUCCESS;
    TRY(attempt(deliverer, checkpoint, &outcome, err));
    if (outcome.is_taken) TRY(take(deliverer, report, err));
    else TRY(refuse(deliverer, &outcome, report, err));
    report->lag = checkpoint->size - deliverer->state.next;
    if (outcome.is_taken && report->lag > 0) report->wait_ms = 0;
    return SUCCESS;
}

struct result deliverer_step(struct deliverer *deliverer, struct deliverer_report *report_out, struct error *err)
{
    struct deliverer_report report = {.wait_ms = OTHER_MS};
    struct signed_checkpoint checkpoint;

    TRY(hold(deliverer, err));
    if (deliverer->is_holder) {
        report.is_holder = true;
        TRY(sequencer_checkpoint(deliverer->options.sequencer, &checkpoint, err));
        TRY(deliver(deliverer, &checkpoint, &report, err));
        report.is_stopped = deliverer->state.stopped_ms != 0;
    }
    *report_out = report;
    return SUCCESS;
}

void deliverer_free(struct deliverer *deliverer)
{
    if (deliverer == NULL) return;
    if (deliverer->peer != NULL) deliverer->peer->free(deliverer->peer);
    pg_free(deliverer->pg);
    delivery_batch_free(deliverer->batch);
    document_free(deliverer->document);
    free(deliverer);
}
