#include "client/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/terminal.h"

#define UPLOADS "/blobs/uploads/"

/* Appends at most `length` bytes of text that another machine may have chosen. */
static struct result add_foreign(struct buffer *text, const char *foreign, size_t length, struct error *err)
{
    char shown[4096]; /* the longest URL (http_call) */

    (void)snprintf(shown, sizeof shown, "%.*s", (int)(length < sizeof shown ? length : sizeof shown - 1), foreign);
    terminal_sanitize(shown);
    return buffer_add_text(text, shown, err);
}

static struct result add_path(const struct trace *trace, struct buffer *text, struct error *err)
{
    const char *path = trace->request->path;
    const size_t origin = strlen(trace->origin);

    if (strncmp(path, trace->origin, origin) == 0) path += origin;
    const char *uploads = strstr(path, UPLOADS);
    const size_t query = strcspn(path, "?");
    if (uploads != NULL && (size_t)(uploads - path) < query) {
        const char *secret = uploads + strlen(UPLOADS);
        TRY(add_foreign(text, path, (size_t)(secret - path), err));
        return buffer_add_text(text, secret[0] == '\0' || secret[0] == '?' ? "" : "(session)", err);
    }
    if (trace->request->is_session) return buffer_add_text(text, "/(session)", err);
    TRY(add_foreign(text, path, query, err));
    return buffer_add_text(text, path[query] == '?' ? "?..." : "", err);
}

static struct result add_named(struct buffer *text, const char *name, const char *value, struct error *err)
{
    if (value[0] == '\0') return SUCCESS;
    TRY(buffer_add_text(text, name, err));
    return add_foreign(text, value, SIZE_MAX, err);
}

struct result trace_write(const struct trace *trace, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "> %s ", trace->request->method));
    TRY(add_path(trace, text, err));
    if (trace->response->status == 0) TRY(buffer_add_text(text, "\n< no answer", err));
    else TRY(buffer_format(text, err, "\n< %ld", trace->response->status));
    TRY(buffer_format(text, err, " in %" PRId64 " ms, sent %" PRIu64 " bytes, received %" PRIu64, trace->duration_ms,
                      trace->sent_bytes, trace->received_bytes));
    TRY(add_named(text, ", request ", trace->response->request_id, err));
    TRY(add_named(text, ", audit ", trace->response->audit, err));
    return buffer_add_text(text, "\n", err);
}
