#include "gateway/background/detection.h"

#include "audit/query.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "detection/detective.h"
#include "detection/metrics.h"
#include "detection/rules.h"
#include "gateway/pipeline/gateway.h"
#include "policy/decider/decider.h"

#define LOOK_EVERY_MS 2000 /* for rules that came into force */
#define FAILED_MS     2000 /* until the next try */

struct detection {
    struct gateway *gateway;
    struct pg *pg;
    struct detective *detective;
    struct detection_rules rules;
    int64_t looked_ms; /* monotonic; 0: never */
    bool is_failed;    /* the last step failed, and the log says so */
    atomic_bool gives_up;
    struct thread thread;
};

static struct result read_rules(struct detection *detection, struct error *err)
{
    const struct gateway *gateway = detection->gateway;
    const struct document_source source = {detection->pg, gateway->keyd, gateway->sequencer};
    struct detection_rules all;
    struct document_reading reading;

    if (detection->looked_ms != 0 && clock_monotonic_ms() - detection->looked_ms < LOOK_EVERY_MS) return SUCCESS;
    if (pg_is_broken(detection->pg)) TRY(pg_reopen(detection->pg, err));
    TRY(document_view_update(gateway->documents, DOCUMENT_DETECTION_RULE, &source, &reading, err));
    TRY(detection_rules_of(gateway->documents, clock_wall_ms(), &all, NULL, err));
    detection->rules = detection_rules_on(&all);
    detection->looked_ms = clock_monotonic_ms();
    return SUCCESS;
}

static struct result work(struct detection *detection, struct detective_report *report_out, struct error *err)
{
    detective_forget_keys(detection->detective);
    TRY(read_rules(detection, err));
    return detective_step(detection->detective, &detection->rules, report_out, err);
}

static int64_t failed(struct detection *detection, const struct error *why)
{
    if (why->kind == ERROR_FORKED) sequencer_set_forked(detection->gateway->sequencer, why);
    if (!detection->is_failed && !atomic_load(&detection->gives_up))
        log_error("the log can't be watched for attacks; it is tried again", why);
    detection->is_failed = true;
    return FAILED_MS;
}

static int64_t step(struct detection *detection)
{
    struct detective_report report = {.is_holder = false};
    struct error err = {0};
    const bool is_well = work(detection, &report, &err).ok;

    metric_set(DETECTION_METRIC(detection_lag), report.is_holder ? (int64_t)report.lag : 0);
    if (!is_well) return failed(detection, &err);
    detection->is_failed = false;
    metric_add(DETECTION_METRIC(detection_alarms), (int64_t)report.alarms);
    if (report.alarms > 0) log_line(LOG_WARNING, "the log has a new alarm: sijil audit search --action alarm.raise", NULL);
    return report.wait_ms;
}

static void *detection_main(void *argument)
{
    struct detection *detection = argument;

    while (thread_sleep(&detection->thread, step(detection))) continue;
    return NULL;
}

/* A label that is too large to be compared is stricter than any. */
static struct result lacks(void *context, const char *name, const char *other, bool *lacks_out, struct error *err)
{
    const struct gateway *gateway = context;
    const struct result compared = decider_label_lacks(gateway->decider, name, other, clock_wall_ms(), lacks_out, err);

    if (compared.ok || err->kind != ERROR_LIMIT) return compared;
    *lacks_out = true;
    return SUCCESS;
}

struct result detection_start(struct gateway *gateway, struct detection **detection_out, struct error *err)
{
    static const struct pg_table *const tables[] = {&document_table, &audit_tree_table, NULL};
    OWNED(detection) *detection = memory_zeroed(1, sizeof *detection);

    if (detection == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for detection");
    const struct detective_options options = {.conninfo = gateway->settings->database,
                                              .origin = gateway->origin,
                                              .keyd = gateway->keyd,
                                              .sequencer = gateway->sequencer,
                                              .gives_up = &detection->gives_up,
                                              .labels = {lacks, gateway}};
    detection->gateway = gateway;
    TRY(pg_open_lazily(gateway->settings->database, tables, &detection->pg, err));
    TRY(detective_new(&options, &detection->detective, err));
    TRY(thread_start(&detection->thread, detection_main, detection, "watches the log", err));
    *detection_out = GIVE(detection);
    return SUCCESS;
}

void detection_free(struct detection *detection)
{
    if (detection == NULL) return;
    atomic_store(&detection->gives_up, true);
    thread_stop(&detection->thread);
    detective_free(detection->detective);
    pg_free(detection->pg);
    free(detection);
}
