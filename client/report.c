#include "client/report.h"

#include <stdio.h>
#include <string.h>

#include "client/address.h"
#include "client/terminal.h"

void report_explain(struct report *report, const char *label, const char *value)
{
    const size_t used = strlen(report->explanation);

    if (value == NULL || value[0] == '\0') return;
    (void)snprintf(report->explanation + used, sizeof report->explanation - used, "%s  %-12s %s", used == 0 ? "" : "\n", label,
                   value);
    address_hide(report->explanation + used);
    terminal_sanitize(report->explanation + used + (used == 0 ? 0 : 1));
}
