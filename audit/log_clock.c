#include "audit/log_clock_priv.h"

#include "audit/metrics.h"

/* How far the clock is outside the range that follows from the elapsed time; 0: it is inside. */
static int64_t step_since(const struct clock_reading *last, const struct clock_reading *reading)
{
    const int64_t least_ms = reading->asked_ms - last->answered_ms, most_ms = reading->answered_ms - last->asked_ms;
    const int64_t passed_ms = reading->database_ms - last->database_ms;
    const int64_t allowed_ms = LOG_CLOCK_NOTICE_MS + most_ms / LOG_CLOCK_DRIFT;

    if (passed_ms > most_ms + allowed_ms) return passed_ms - most_ms;
    if (passed_ms < least_ms - allowed_ms) return passed_ms - least_ms;
    return 0;
}

static struct result check_wall(const struct clock_reading *reading, struct error *err)
{
    const int64_t waited_ms = reading->answered_ms - reading->asked_ms, off_ms = reading->database_ms - reading->wall_ms;

    if (off_ms <= LOG_CLOCK_OFF_MAX_MS && off_ms >= -LOG_CLOCK_OFF_MAX_MS - waited_ms) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE,
                   "the clocks of the database and of this machine are %lld s apart, more than %d: nothing is recorded until "
                   "both are set right",
                   (long long)(off_ms / 1000), LOG_CLOCK_OFF_MAX_MS / 1000);
}

static struct result check_step(int64_t step_ms, struct error *err)
{
    if (step_ms <= LOG_CLOCK_STEP_MAX_MS && step_ms >= -LOG_CLOCK_STEP_MAX_MS) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE,
                   "the clock was set %s by %lld s at once, more than %d: nothing is recorded until it is set back, or, if the "
                   "new time is right, the gateway is started again",
                   step_ms > 0 ? "forward" : "back", (long long)((step_ms > 0 ? step_ms : -step_ms) / 1000),
                   LOG_CLOCK_STEP_MAX_MS / 1000);
}

static struct result check_reading(const struct clock_reading *reading, int64_t step_ms, struct error *err)
{
    TRY(check_wall(reading, err));
    return check_step(step_ms, err);
}

struct result log_clock_read(struct log_clock *clock, const struct clock_reading *reading, struct error *err)
{
    const int64_t step_ms = clock->is_known ? step_since(&clock->last, reading) : 0;

    const struct result checked = check_reading(reading, step_ms, err);
    clock->is_refused = !checked.ok;
    metric_set(AUDIT_METRIC(audit_clock_refused), !checked.ok);
    TRY(checked);
    clock->is_known = true;
    clock->last = *reading;
    if (step_ms != 0) log_clock_add_step(clock, step_ms);
    return SUCCESS;
}

void log_clock_add_step(struct log_clock *clock, int64_t step_ms)
{
    clock->stepped_ms += step_ms;
    clock->steps++;
    metric_add(AUDIT_METRIC(audit_clock_steps), 1);
}
