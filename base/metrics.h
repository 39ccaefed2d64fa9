/*
 * base/metrics.h -- metrics for Prometheus.
 *
 * Each folder has its own X-macro table of metrics (<folder>/metrics.def) and defines them as static objects; the gateway
 * renders all tables at /metrics. An update is one relaxed atomic operation, without locks or allocation. Labels are fixed
 * when a metric is defined: never a name, address or other text from outside. A label may have a name that the operator
 * configured.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/bytes.h"

/* The last two are kept in microseconds and written in seconds. */
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_COUNTER_SECONDS, METRIC_GAUGE_SECONDS };

#define METRIC_BUCKETS 16 /* upper bounds in microseconds: 100, 200, 400, and so on, doubled each time; the last is +Inf */

struct metric {
    const char *name; /* "sijil_requests_total"; neighbours may share it, with other labels */
    const char *help;
    const char *labels; /* "outcome=\"denied\"", or "" */
    enum metric_kind kind;
    _Atomic int64_t value;                    /* a counter or gauge; of a histogram the sum in microseconds */
    _Atomic uint64_t buckets[METRIC_BUCKETS]; /* not cumulative */
};

struct metric_table {
    struct metric *metrics;
    size_t count;
};

static inline void metric_add(struct metric *metric, int64_t amount)
{
    atomic_fetch_add_explicit(&metric->value, amount, memory_order_relaxed);
}
static inline void metric_set(struct metric *metric, int64_t value)
{
    atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}
static inline int64_t metric_value(const struct metric *metric)
{
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}
/** Adds one observation to a histogram. */
void metric_observe_us(struct metric *metric, int64_t microseconds);

/** Appends the tables in Prometheus' text format 0.0.4; histograms in seconds. */
RESULT metrics_write(struct buffer *text, const struct metric_table *const *tables, size_t count, struct error *err);
