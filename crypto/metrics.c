#include "crypto/metrics.h"

enum {
#define X(number, type, label) PLACE_##label,
    KEYD_TYPES(X)
#undef X
        TYPE_COUNT
};

static struct metric calls[TYPE_COUNT] = {
#define X(number, type, label)                                                          \
    [PLACE_##label] = {.name = "sijil_keyd_call_seconds",                               \
                       .help = "From asking sijil-keyd to its answer, or to giving up", \
                       .labels = "call=\"" #label "\"",                                 \
                       .kind = METRIC_HISTOGRAM},
    KEYD_TYPES(X)
#undef X
};

static struct metric failures[] = {
#define X(error, label, meaning)                                                  \
    [(error)-1] = {.name = "sijil_keyd_failures_total",                           \
                   .help = "Calls of sijil-keyd that failed, by kind of failure", \
                   .labels = "kind=\"" label "\"",                                \
                   .kind = METRIC_COUNTER},
    ERROR_KINDS(X)
#undef X
};

const struct metric_table keyd_call_metrics = {calls, TYPE_COUNT};
const struct metric_table keyd_failure_metrics = {failures, sizeof failures / sizeof failures[0]};

static struct metric *duration_of(enum keyd_type type)
{
    switch (type) {
#define X(number, constant, label) \
    case constant: return &calls[PLACE_##label];
        KEYD_TYPES(X)
#undef X
    case KEYD_ERROR: break;
    }
    return &calls[0];
}

void keyd_metrics_count(enum keyd_type type, int64_t took_us, enum error_kind failed)
{
    metric_observe_us(duration_of(type), took_us);
    if (failed != ERROR_NONE) metric_add(&failures[failed - 1], 1);
}
