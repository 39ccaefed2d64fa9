#include "client/step_up.h"

#include <stdio.h>
#include <string.h>

#include "client/terminal.h"

#define VALUES_SIZE 512 /* the challenge of an answer is no longer */

bool step_up_is_wanted(const struct http_response *response)
{
    return response->status == 401 && strstr(response->challenge, "error=\"insufficient_user_authentication\"") != NULL;
}

/* "": any will do. A quote of the shell would end the word that a person copies. */
static void read_values(const struct http_response *response, char values[VALUES_SIZE])
{
    static const char name[] = ",acr_values=\"";
    const char *begin = strstr(response->challenge, name), *text = begin == NULL ? "" : begin + sizeof name - 1;

    (void)snprintf(values, VALUES_SIZE, "%.*s", (int)strcspn(text, "\"'"), text);
    terminal_sanitize(values);
}

struct result step_up_log_in(struct report *report, const char *host, const struct http_response *response,
                             struct host_login *login, bool *is_done_out, struct error *err)
{
    char values[VALUES_SIZE];

    *is_done_out = false;
    if (report->log_in == NULL || login->issuer.url[0] == '\0') return SUCCESS;
    read_values(response, values);
    TRY(report->log_in(report, host, values, err));
    TRY(host_login_find(host, login, err));
    *is_done_out = true;
    return SUCCESS;
}

struct result step_up_refused(struct report *report, const char *host, const struct http_response *response, struct error *err)
{
    char values[VALUES_SIZE], text[VALUES_SIZE + 400];

    read_values(response, values);
    (void)snprintf(text, sizeof text, "sijil login %s --fresh%s%s%s, then the same command again", host,
                   values[0] == '\0' ? "" : " --acr-values '", values, values[0] == '\0' ? "" : "'");
    report_explain(report, "try", text);
    return failure(err, ERROR_DENIED, "401: this needs a login at your issuer that is a few minutes old");
}
