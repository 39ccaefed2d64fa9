/* The known headers of an answer, and the encoding of text for a request's path. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/http.h"

static void take_header(struct bytes line, const char *name, char *destination, size_t room)
{
    const size_t length = strlen(name);
    const char *text = (const char *)line.data;

    if (line.length <= length || strncasecmp(text, name, length) != 0 || text[length] != ':') return;
    size_t from = length + 1, to = line.length;
    while (from < to && (text[from] == ' ' || text[from] == '\t')) from++;
    while (to > from && (text[to - 1] == '\r' || text[to - 1] == '\n' || text[to - 1] == ' ')) to--;
    if (to - from >= room) return;
    for (size_t i = from; i < to; i++) /* parsers differ about other bytes (RFC 9110 section 5.5) */
        if (text[i] < ' ' || text[i] > '~') return;
    memcpy(destination, text + from, to - from);
    destination[to - from] = '\0';
}

/* Warning: 299 - "text" (specification, "Warnings"); other warnings are ignored. */
static void take_warning(struct http_response *response, struct bytes line)
{
    char value[1024] = "", *to = value;
    const size_t used = strlen(response->warnings);

    take_header(line, "warning", value, sizeof value);
    const size_t length = strlen(value);
    if (strncmp(value, "299 - \"", 7) != 0 || length < 8 || value[length - 1] != '"') return;
    for (const char *at = value + 7; at < value + length - 1; at++) {
        if (*at == '\\' && at + 1 < value + length - 1) at++;
        *to++ = *at;
    }
    *to = '\0';
    if (used + strlen(value) + 2 > sizeof response->warnings) return;
    (void)snprintf(response->warnings + used, sizeof response->warnings - used, "%s\n", value);
}

void http_response_take(struct http_response *response, struct bytes line)
{
    take_warning(response, line);
    take_header(line, "location", response->location, sizeof response->location);
    take_header(line, "www-authenticate", response->challenge, sizeof response->challenge);
    take_header(line, "docker-content-digest", response->digest, sizeof response->digest);
    take_header(line, "range", response->range, sizeof response->range);
    take_header(line, "link", response->link, sizeof response->link);
    take_header(line, "content-type", response->content_type, sizeof response->content_type);
    take_header(line, "sijil-audit", response->audit, sizeof response->audit);
    take_header(line, "sijil-log-offset", response->log_offset, sizeof response->log_offset);
    take_header(line, "sijil-log-size", response->log_size, sizeof response->log_size);
    take_header(line, "sijil-log-end", response->log_end, sizeof response->log_end);
    take_header(line, "dpop-nonce", response->nonce, sizeof response->nonce);
    take_header(line, "retry-after", response->retry_after, sizeof response->retry_after);
    take_header(line, "x-request-id", response->request_id, sizeof response->request_id);
}

void http_response_done(struct http_response *response)
{
    buffer_done(&response->body);
}

struct result http_escape(struct buffer *buffer, const char *text, struct error *err)
{
    for (; *text != '\0'; text++) {
        const unsigned char letter = (unsigned char)*text;
        if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
            strchr("-._~", letter) != NULL)
            TRY(buffer_add_u8(buffer, letter, err));
        else TRY(buffer_format(buffer, err, "%%%02X", letter));
    }
    return SUCCESS;
}
