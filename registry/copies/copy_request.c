#include "registry/copies/copy_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define PREFIX "/v1/copies/"

void copy_request_write(const struct copy_request *request, char target_out[COPY_REQUEST_SIZE])
{
    char project[UUID_TEXT_SIZE];

    uuid_format(&request->project, project);
    (void)snprintf(target_out, COPY_REQUEST_SIZE, PREFIX "%s/%s/%" PRIu64 "/%s/%s", project, request->digest, request->epoch,
                   request->set, request->to);
}

/* The part up to the next slash, which is passed over. False: there is none. */
static bool take_part(const char **at, struct bytes *part_out)
{
    const char *end = strchr(*at, '/');

    if (end == NULL) return false;
    *part_out = (struct bytes){(const uint8_t *)*at, (size_t)(end - *at)};
    *at = end + 1;
    return true;
}

static bool take_digest(const char **at, char text_out[DIGEST_TEXT_SIZE])
{
    struct digest digest;
    struct bytes part;
    struct error ignored;

    if (!take_part(at, &part) || !digest_parse(part, &digest, &ignored).ok) return false;
    digest_format(&digest, text_out);
    return true;
}

static bool is_region(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const size_t first = strspn(text, letters), second = text[first] == '/' ? strspn(text + first + 1, letters) : 0;

    return first > 0 && second > 0 && text[first + 1 + second] == '\0' && strlen(text) <= COPY_REGION_MAX;
}

bool copy_request_read(const char *target, struct copy_request *request_out)
{
    struct copy_request request = {.epoch = 0};
    char again[COPY_REQUEST_SIZE];
    const char *at = target;
    struct bytes part;

    if (strncmp(at, PREFIX, sizeof PREFIX - 1) != 0) return false;
    at += sizeof PREFIX - 1;
    if (!take_part(&at, &part) || !uuid_parse(part, &request.project)) return false;
    if (!take_digest(&at, request.digest)) return false;
    if (!take_part(&at, &part) || !text_to_u64(part, INT64_MAX, &request.epoch)) return false;
    if (!take_digest(&at, request.set) || !is_region(at)) return false;
    (void)snprintf(request.to, sizeof request.to, "%s", at);
    copy_request_write(&request, again);
    if (strcmp(again, target) != 0) return false; /* a number with zeros before it */
    *request_out = request;
    return true;
}
