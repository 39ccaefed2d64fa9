#include "runner/serve/outcome.h"

#include <stdio.h>
#include <string.h>

#include "client/terminal.h"

#define NOT_BEGUN 127   /* as a shell */
#define FULL_BUT  65536 /* a file system in memory has pages, and folders take some, too */

static void say(struct outcome *outcome, const char *status, const char *reason)
{
    outcome->status = status;
    (void)snprintf(outcome->reason, sizeof outcome->reason, "%.256s", reason);
    terminal_sanitize(outcome->reason);
}

/* The reason of a program that ended by itself, without success. */
static void say_end(struct outcome *outcome, const struct ended_run *ended)
{
    const bool was_full = ended->report->output_bytes > ended->output_max / 2 &&
                          ended->report->output_bytes > ended->output_max - FULL_BUT && ended->output_max > 0;
    const char *more = was_full ? ", and /out was full: output_bytes is its limit" : "";
    char reason[128];

    if (outcome->signal != 0)
        (void)snprintf(reason, sizeof reason, "signal %lld ended the program%s", (long long)outcome->signal, more);
    else (void)snprintf(reason, sizeof reason, "the program ended with the status %lld%s", (long long)outcome->exit_status, more);
    say(outcome, "failed", reason);
}

static void say_lack(struct outcome *outcome, const char *name)
{
    char reason[192];

    (void)snprintf(reason, sizeof reason, "the output %.63s is missing: the program writes it to /out/%.63s", name, name);
    say(outcome, "failed", reason);
}

static void say_own_end(struct outcome *outcome, const struct ended_run *ended)
{
    if (ended->report->end == SANDBOX_MEMORY) say(outcome, "failed", "it used more than memory_bytes");
    else if (outcome->exit_status != 0 || outcome->signal != 0) say_end(outcome, ended);
    else if (ended->fault != NULL) say(outcome, "failed", ended->fault);
    else if (ended->lacks != NULL) say_lack(outcome, ended->lacks);
    else say(outcome, "succeeded", "");
}

struct outcome outcome_of(const struct ended_run *ended)
{
    const struct sandbox_report *report = ended->report;
    struct outcome outcome = {.exit_status = NOT_BEGUN};

    if (report == NULL) {
        say(&outcome, ended->stopped != NULL ? "cancelled" : "failed", ended->stopped != NULL ? ended->stopped : ended->fault);
        return outcome;
    }
    outcome.exit_status = report->exit;
    outcome.signal = report->signal;
    if (report->end == SANDBOX_TIMEOUT) say(&outcome, "timeout", "time_s was over");
    else if (report->end == SANDBOX_CANCELLED && ended->lost != NULL) say(&outcome, "failed", ended->lost);
    else if (report->end == SANDBOX_CANCELLED) say(&outcome, "cancelled", ended->stopped == NULL ? "" : ended->stopped);
    else say_own_end(&outcome, ended);
    return outcome;
}

/* ---- progress ---- */

/* At most nine digits; *after is behind them. */
static long long number_at(const char *text, const char **after)
{
    long long value = 0;
    int digits = 0;

    for (; *text >= '0' && *text <= '9' && digits < 9; text++, digits++) value = value * 10 + (*text - '0');
    while (*text == ' ') text++;
    *after = text;
    return value;
}

int outcome_progress(const char *line)
{
    for (const char *at = strpbrk(line, "0123456789"); at != NULL; at = strpbrk(at, "0123456789")) {
        const char *after = NULL;
        const long long value = number_at(at, &after);
        if (*after == '%' && value <= 100) return (int)value;
        if (*after == '/' && after[1 + strspn(after + 1, " ")] != '\0') {
            const char *end = NULL;
            const long long whole = number_at(after + 1 + strspn(after + 1, " "), &end);
            if (whole > 0 && value <= whole) return (int)(value * 100 / whole);
        }
        at += strspn(at, "0123456789");
    }
    return -1;
}
