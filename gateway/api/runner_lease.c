/* POST /api/v1/runner/leases: a runner asks for work, and waits for it without a worker. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "gateway/api/runner_work_priv.h"
#include "training/format/bundle.h"
#include "training/format/form.h"
#include "training/unproven.h"

#define CLAIMS_MAX 8   /* runs in one search that are not allowed here, or that others get meanwhile */
#define AGAIN_MS   200 /* until the next search, after one that found only such runs */
#define WAIT_MAX_S 30

PART(offered_device, "a device that is free", HAS_TEXT("type", REQUIRED, FORM_FREE, 1, 63, "its name, such as NVIDIA H200"),
     HAS_TEXT("mig", OPTIONAL, FORM_FREE, 1, 31, "the profile of a part of a device"),
     HAS_COUNT("memory_bytes", REQUIRED, "its memory"))

SCHEMA(lease_wanted, "what a runner has free",
       HAS_TEXT("session", REQUIRED, FORM_FREE, 2 * RUN_SESSION_SIZE, 2 * RUN_SESSION_SIZE,
                "32 hex digits, chosen at random when the runner starts"),
       HAS_COUNT("generation", REQUIRED, "of the runner's journal: it rises at each start"),
       HAS_NUMBER("wait_s", REQUIRED, 0, WAIT_MAX_S, "how long the answer may take if there is no work"),
       HAS_WORD("isolation", REQUIRED, "rlimits cgroup-v1 cgroup-v2", "that its machine gives"),
       HAS_NUMBER("nodes", OPTIONAL, 0, RUN_NODES_MAX,
                  "of one run of several nodes, that it can serve at once; 0 if it says nothing"),
       HAS_NUMBER("cpus", REQUIRED, 0, 4096, "free processors"), HAS_COUNT("memory_bytes", REQUIRED, "free memory"),
       HAS_LIST("devices", REQUIRED, RUN_OFFERED_MAX, schema_offered_device, "free devices"),
       HAS_ID("run", OPTIONAL, "only this run: a scheduler's job names it"),
       HAS_NUMBER("attempt", OPTIONAL, 1, 100, "with `run`: only this attempt"))

/* One request for work. */
struct asking {
    struct bundle_answer answer; /* first: bundle_release() */
    int64_t until_ms;            /* monotonic */
    struct run_session session;
    struct run_offer offer;
    char place[RUNNER_PLACE_SIZE]; /* where the runner is */
    struct uuid run;               /* that the offer names */
};

struct result target_runner_lease(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return runner_target_ask(request, err);
}

/* ---- the offer ---- */

static void offer_devices(const json_t *list, struct run_offer *offer)
{
    for (size_t i = 0; i < json_array_size(list) && i < RUN_OFFERED_MAX; i++) {
        const json_t *device = json_array_get(list, i);
        const char *mig = json_text_of(device, "mig");
        offer->device_types[i] = bytes_of_text(json_text_of(device, "type"));
        offer->device_migs[i] = bytes_of_text(mig == NULL ? "" : mig);
        (void)json_integer_of(device, "memory_bytes", &offer->device_memory[i]);
        offer->device_count = i + 1;
    }
}

static int64_t lesser(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* A place, a pool and the like count as the approvers have signed them; only what is free is the runner's own word. */
static void fill_offer(const struct request *request, const json_t *body, struct asking *asking)
{
    const struct enrolled_runner *runner = request->runner;
    const struct resource *scope = &request->pairs[0].resource;
    struct run_offer *offer = &asking->offer;

    runner_gate_name(request, asking->place);
    *offer = (struct run_offer){
        .key = runner->name,
        .organisation = runner->scope[0] == '\0' ? NULL : &request->principal->organisation,
        .project = scope->kind == RESOURCE_PROJECT ? &scope->project : NULL,
        .pool = runner->key.pool,
        .region = asking->place,
        .jurisdiction_count = runner->jurisdiction_count,
        .isolation = lesser(form_isolation_rank(runner->key.isolation), form_isolation_rank(json_text_of(body, "isolation"))),
        .assurance = runner->key.assurance,
        .devices_most = runner->key.devices,
        .enrolled_until_ms = runner->expires_ms};
    for (size_t i = 0; i < runner->jurisdiction_count; i++) offer->jurisdictions[i] = bytes_of_text(runner->jurisdictions[i]);
    (void)json_integer_of(body, "cpus", &offer->cpus);
    (void)json_integer_of(body, "memory_bytes", &offer->memory_bytes);
    (void)json_integer_of(body, "nodes", &offer->nodes);
    offer_devices(json_object_get(body, "devices"), offer);
}

static struct result name_run(const json_t *body, struct asking *asking, struct error *err)
{
    const char *run = json_text_of(body, "run");
    const bool has_attempt = json_integer_of(body, "attempt", &asking->offer.attempt);

    if ((run != NULL) != has_attempt) return failure(err, ERROR_INVALID, "run and attempt: both, or none");
    if (run == NULL) return SUCCESS;
    if (!uuid_parse(bytes_of_text(run), &asking->run)) return failure(err, ERROR_INVALID, "run: a UUID is expected");
    asking->offer.run = &asking->run;
    return SUCCESS;
}

static struct result begin(struct request *request, struct asking **asking_out, struct error *err)
{
    struct asking *asking = arena_take(request->arena, sizeof *asking);
    const json_t *body = NULL;
    int64_t wait_s = 0;

    if (asking == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an offer");
    memset(asking, 0, sizeof *asking);
    asking->answer.text = BUFFER(RUN_BUNDLE_MAX);
    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "wait_s", &wait_s);
    asking->until_ms = clock_monotonic_ms() + 1000 * wait_s;
    asking->session.key = request->runner->name;
    asking->session.runner = request->runner->key.runner;
    (void)json_integer_of(body, "generation", &asking->session.generation);
    TRY(runner_read_session(json_text_of(body, "session"), "session", asking->session.session, err));
    fill_offer(request, body, asking);
    TRY(name_run(body, asking, err));
    request->handler_state = asking;
    *asking_out = asking;
    return SUCCESS;
}

/* ---- the session ---- */

/* Its enrolment may have ended while it waited. */
static struct result check_enrolment(struct request *request, struct pg *pg, struct error *err)
{
    bool counts = false;

    TRY(runner_still_counts(request, pg, &counts, err));
    return counts ? SUCCESS : failure(err, ERROR_DENIED, "this runner was withdrawn, or its enrolment has ended");
}

/* ---- a lease ---- */

static struct result sign(struct request *request, struct pg *pg, const struct run_lease *lease, struct error *err)
{
    const struct run_bundle_source source = bundle_source(request, pg);
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_LEASE, .run = lease->claim.run, .last = RUN_ORDER},
                                           .runner = lease->holder.key,
                                           .is_of_day = true};
    struct buffer OWNED_BUFFER bundle = BUFFER(KEYD_RUN_MAX), envelope = BUFFER(RUN_ENVELOPE_MAX);
    struct keyd_run wanted = {.lifetime_s = (uint32_t)(lease->claim.time_s + RUN_FETCH_S),
                              .key = bytes_of_text(lease->holder.key),
                              .attempt = (uint8_t)lease->holder.attempt,
                              .node = (uint8_t)lease->holder.node};

    TRY(run_bundle_make(request->permit, &source, &query, &bundle, err));
    wanted.bundle = buffer_bytes(&bundle);
    TRY(keyd_run_lease(request->gateway->keyd, &wanted, &envelope, err));
    return run_lease_keep(request->permit, pg, lease, buffer_bytes(&envelope), err);
}

static struct result answer(struct request *request, struct pg *pg, const struct run_lease *lease, struct error *err)
{
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_LEASE,
                                                      .run = lease->claim.run,
                                                      .last = RUN_LEASE,
                                                      .attempt = lease->holder.attempt,
                                                      .node = lease->holder.node},
                                           .is_whole = true};

    return bundle_answer(request, pg, &query, err);
}

static void prepare(const struct asking *asking, const struct run_claim *claim, struct run_lease *lease_out)
{
    struct run_lease of = {.holder.key = asking->session.key, .runner = asking->session.runner};

    of.ends_ms = lesser(claim->expires_ms, clock_wall_ms() + 1000 * (claim->time_s + RUN_FETCH_S));
    memcpy(of.session, asking->session.session, sizeof of.session);
    run_lease_prepare(claim, &of, lease_out);
}

static struct action_pair pair_of(const struct request *request, const struct run_lease *lease)
{
    struct action_pair pair = {ACTION_RUN_LEASE, lease->where};

    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", request->runner->key.region);
    runner_name_lease(&lease->holder, pair.resource.detail);
    return pair;
}

/* If sijil-keyd refuses this lease, others get the run at once. Without an answer of sijil-keyd the runner asks again, and gets the same lease. */
static struct result sign_or_take_back(struct request *request, struct pg *pg, const struct run_lease *lease, bool *is_signed_out,
                                       struct error *err)
{
    struct error why = {0};

    *is_signed_out = sign(request, pg, lease, &why).ok;
    if (*is_signed_out) return SUCCESS;
    if (!keyd_has_refused(why.kind)) return failure(err, why.kind, "%s", why.message);
    log_error("sijil-keyd signs no lease", &why);
    struct error taken = {0};
    if (!run_lease_take_back(request->permit, request->gateway->sequencer, lease, why.message, &taken).ok &&
        taken.kind != ERROR_CONFLICT)
        return failure(err, taken.kind, "%s", taken.message);
    response_empty(request, 204); /* the permit is for that lease, and for no other search: the runner asks again */
    return SUCCESS;
}

/* ---- whether it may be today ---- */

/* The run ends. */
static struct result forbid(struct request *request, const struct run_claim *claim, const char *reason, struct error *err)
{
    const struct run_forbidden forbidden = {ACTION_RUNNER_ASK, &claim->where, &claim->run, reason};
    struct error why = {0};

    TRY(runner_record_asking(request, err));
    if (run_forbid(request->permit, request->gateway->sequencer, &forbidden, &why).ok || why.kind == ERROR_CONFLICT)
        return SUCCESS;
    return failure(err, why.kind, "%s", why.message);
}

/* What a run that has its order is told today, by what its requester may do and by the policies. */
struct today {
    enum runner_verdict verdict;
    char reason[RUN_REASON_SIZE];
};

static struct result decide_today(struct request *request, struct pg *pg, const struct run_claim *claim, struct today *today_out,
                                  struct error *err)
{
    OWNED_ORDERED ordered = {.order = NULL};

    TRY(run_ordered_find(lookup_of(pg), &claim->run, &ordered, err));
    const struct runner_again again = {ordered.order, ordered.request, &claim->where};
    return runner_decide_again(request, &again, &today_out->verdict, today_out->reason, err);
}

/* The same lease again, if its answer was lost: only a session that has not begun with it gets it again. */
static struct result give_again(struct request *request, struct pg *pg, const struct asking *asking, struct error *err)
{
    struct run_leased leased;
    struct run_lease lease;
    struct today today;
    bool is_found = false;

    TRY(run_leased_find(lookup_of(pg), &asking->offer, asking->session.session, &leased, &is_found, err));
    if (!is_found) return SUCCESS;
    TRY(decide_today(request, pg, &leased.claim, &today, err));
    if (today.verdict != RUNNER_MAY) return forbid(request, &leased.claim, today.reason, err); /* as a heartbeat does */
    prepare(asking, &leased.claim, &lease);
    const struct action_pair pair = pair_of(request, &lease);
    TRY(request_record_instead(request, &pair, 1, NULL, err));
    if (!leased.is_signed) TRY(sign_or_take_back(request, pg, &lease, &leased.is_signed, err));
    return leased.is_signed ? answer(request, pg, &lease, err) : SUCCESS;
}

/* ---- the search ---- */

/* The policies have changed since the order. */
static struct result forbid_here(struct request *request, struct pg *pg, const struct run_claim *claim, const char *reason,
                                 struct error *err)
{
    const char *region = request->runner->key.region;
    char attested[RUNNER_PLACE_SIZE];
    int64_t regions = 0;

    (void)snprintf(attested, sizeof attested, RUNNER_ATTESTED_MARK "%s", region);
    TRY(runner_record_asking(request, err));
    TRY(run_region_drop(request->permit, pg, claim, region, &regions, err));
    TRY(run_region_drop(request->permit, pg, claim, attested, &regions,
                        err)); /* or a run that nobody may have would wait for one */
    return regions > 0 ? SUCCESS : forbid(request, claim, reason, err);
}

static struct result lease(struct request *request, struct pg *pg, const struct asking *asking, const struct run_claim *claim,
                           struct error *err)
{
    struct run_lease change;
    struct error why = {0};
    bool is_signed = false;

    prepare(asking, claim, &change);
    const struct action_pair pair = pair_of(request, &change);
    if (request_record_instead(request, &pair, 1, &change.change, &why).ok) {
        TRY(sign_or_take_back(request, pg, &change, &is_signed, err));
        return is_signed ? answer(request, pg, &change, err) : SUCCESS;
    }
    if (why.kind == ERROR_DENIED) return forbid_here(request, pg, claim, "the policies of today do not allow this project", err);
    return why.kind == ERROR_CONFLICT ? SUCCESS : failure(err, why.kind, "%s", why.message); /* another runner was faster */
}

/* Whether the runner may have this run today. If not, the run ends, or is not offered in this region any more. */
static struct result may_have(struct request *request, struct pg *pg, const struct run_claim *claim, bool *may_out,
                              struct error *err)
{
    struct today today;

    *may_out = false;
    TRY(decide_today(request, pg, claim, &today, err));
    if (today.verdict == RUNNER_MAY_NOT) return forbid(request, claim, today.reason, err);
    if (today.verdict == RUNNER_MAY_NOT_HERE) return forbid_here(request, pg, claim, today.reason, err);
    *may_out = true;
    return SUCCESS;
}

static int64_t look_again_ms(const struct run_gather *gather)
{
    const int64_t each_ms = gather->claim.nodes * RUN_GATHER_EACH_MS;

    return each_ms > RUN_GATHER_EVERY_MS ? lesser(each_ms, RUN_GATHER_LATEST_MS) : RUN_GATHER_EVERY_MS;
}

/* The runner is kept for a run of several nodes. *again_ms_out: when it looks again; 0: at once. */
static struct result gather(struct request *request, struct pg *pg, const struct asking *asking, const struct run_gather *gather,
                            int64_t *again_ms_out, struct error *err)
{
    enum run_keeping keeping = RUN_KEEPS_NOT;
    bool may = false;

    *again_ms_out = AGAIN_MS; /* another runner takes its lease just now */
    if (gather->is_gathered) return SUCCESS;
    TRY(may_have(request, pg, &gather->claim, &may, err));
    if (may) TRY(run_gather_join(pg, &asking->offer, gather, &keeping, err));
    *again_ms_out = keeping == RUN_KEEPS ? look_again_ms(gather) : 0;
    return SUCCESS;
}

/* *again_ms_out 0: there may be another run. The answer is made if the runner has got this one. */
static struct result try_one(struct request *request, struct pg *pg, const struct asking *asking, int64_t *again_ms_out,
                             struct error *err)
{
    struct run_gather kept;
    struct run_claim claim;
    bool is_kept = false, is_found = false, may = false;

    *again_ms_out = 0;
    TRY(run_gather_find(lookup_of(pg), &asking->offer, &kept, &is_kept, err));
    TRY(run_claim(pg, &asking->offer, is_kept ? &kept : NULL, &claim, &is_found, err));
    if (is_found) {
        if (is_kept && !uuid_equal(&claim.run, &kept.claim.run)) TRY(run_gather_note(pg, &asking->offer, &kept, err));
        TRY(may_have(request, pg, &claim, &may, err));
        return may ? lease(request, pg, asking, &claim, err) : SUCCESS;
    }
    if (is_kept) return gather(request, pg, asking, &kept, again_ms_out, err);
    *again_ms_out = INT64_MAX;
    return SUCCESS;
}

/* `has_waited`: its offer is noted already. */
static struct result search(struct request *request, struct pg *pg, const struct asking *asking, bool has_waited,
                            struct error *err)
{
    const int64_t left_ms = asking->until_ms - clock_monotonic_ms();
    int64_t again_ms = 0;

    for (unsigned i = 0; i < CLAIMS_MAX && again_ms == 0 && request->response == NULL; i++)
        TRY(try_one(request, pg, asking, &again_ms, err));
    if (request->response != NULL) return SUCCESS;
    if (!has_waited && asking->offer.run == NULL) TRY(run_offer_note(pg, &asking->offer, err));
    if (left_ms <= 0 || !request_may_wait(request)) response_empty(request, 204);
    else request_wait_for(request, asking->offer.pool, lesser(left_ms, again_ms == 0 ? AGAIN_MS : again_ms));
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct asking *asking = request->handler_state;
    const bool has_waited = asking != NULL;

    if (asking == NULL) TRY(begin(request, &asking, err));
    else TRY(check_enrolment(request, pg, err));
    request_listen(request, asking->offer.pool);
    TRY(runner_check_session(request, pg, &asking->session, has_waited, err));
    if (request->response == NULL) TRY(give_again(request, pg, asking, err));
    return request->response != NULL ? SUCCESS : search(request, pg, asking, has_waited, err);
}

const struct handler handler_runner_lease = {.handle = handle, .release = bundle_release};
