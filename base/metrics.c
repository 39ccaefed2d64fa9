#include "base/metrics.h"

#include <inttypes.h>
#include <string.h>

#define FIRST_BOUND_US 100

void metric_observe_us(struct metric *metric, int64_t microseconds)
{
    int64_t bound = FIRST_BOUND_US;
    size_t bucket = 0;

    for (; bucket < METRIC_BUCKETS - 1 && microseconds > bound; bucket++) bound *= 2;
    atomic_fetch_add_explicit(&metric->buckets[bucket], 1, memory_order_relaxed);
    metric_add(metric, microseconds);
}

static struct result write_histogram(struct buffer *text, const struct metric *metric, struct error *err)
{
    const char *comma = metric->labels[0] == '\0' ? "" : ",";
    const char *open = metric->labels[0] == '\0' ? "" : "{", *close = metric->labels[0] == '\0' ? "" : "}";
    uint64_t total = 0;
    double bound = FIRST_BOUND_US / 1e6;

    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        total += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        if (i + 1 < METRIC_BUCKETS)
            TRY(buffer_format(text, err, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", metric->name, metric->labels, comma, bound,
                              total));
        else
            TRY(buffer_format(text, err, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", metric->name, metric->labels, comma, total));
        bound *= 2;
    }
    TRY(buffer_format(text, err, "%s_sum%s%s%s %.6f\n", metric->name, open, metric->labels, close,
                      (double)metric_value(metric) / 1e6));
    return buffer_format(text, err, "%s_count%s%s%s %" PRIu64 "\n", metric->name, open, metric->labels, close, total);
}

static struct result write_metric(struct buffer *text, const struct metric *metric, struct error *err)
{
    const bool is_time = metric->kind == METRIC_COUNTER_SECONDS || metric->kind == METRIC_GAUGE_SECONDS;

    if (metric->kind == METRIC_HISTOGRAM) return write_histogram(text, metric, err);
    TRY(buffer_format(text, err, "%s", metric->name));
    if (metric->labels[0] != '\0') TRY(buffer_format(text, err, "{%s}", metric->labels));
    if (is_time) return buffer_format(text, err, " %.6f\n", (double)metric_value(metric) / 1e6);
    return buffer_format(text, err, " %" PRId64 "\n", metric_value(metric));
}

static struct result write_table(struct buffer *text, const struct metric_table *table, struct error *err)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram", "counter", "gauge"};
    const char *previous = "";

    for (size_t i = 0; i < table->count; i++) {
        const struct metric *metric = &table->metrics[i];
        if (strcmp(metric->name, previous) != 0)
            TRY(buffer_format(text, err, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
                              kinds[metric->kind]));
        previous = metric->name;
        TRY(write_metric(text, metric, err));
    }
    return SUCCESS;
}

struct result metrics_write(struct buffer *text, const struct metric_table *const *tables, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) TRY(write_table(text, tables[i], err));
    return SUCCESS;
}
