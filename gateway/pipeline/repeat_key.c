/* The header Idempotency-Key, and the routes that it has a meaning for. */
#include <string.h>

#include "gateway/pipeline/repeat.h"
#include "gateway/pipeline/route.h"

#define RULE \
    "Idempotency-Key has 1 to 255 letters of printable ASCII without spaces, quotes and backslashes, in quotes or without: draw a UUID for each thing that you make"

static bool is_key_letter(char letter)
{
    return letter > ' ' && letter <= '~' && letter != '"' && letter != '\\';
}

struct result repeat_key_read(const char *value, struct bytes *key_out, struct error *err)
{
    struct bytes key = bytes_of_text(value);

    if (key.length >= 2 && value[0] == '"' && value[key.length - 1] == '"') key = (struct bytes){key.data + 1, key.length - 2};
    if (key.length == 0 || key.length > REPEAT_KEY_MAX) return failure(err, ERROR_INVALID, RULE);
    for (size_t i = 0; i < key.length; i++)
        if (!is_key_letter((char)key.data[i])) return failure(err, ERROR_INVALID, RULE);
    *key_out = key;
    return SUCCESS;
}

bool route_takes_repeats(const struct route *route)
{
    if ((route->methods & METHOD_BIT(METHOD_POST)) == 0 || strncmp(route->pattern, "/api/v1/", 8) != 0) return false;
    if (route->record != RECORD_WITH_CHANGE || route->credential != CREDENTIAL_REGISTRY || route->about == NULL) return false;
    if ((route->about->answer->flags & SCHEMA_HAS_SECRET) != 0) return true;
    for (size_t i = 0; i < ROUTE_STATUSES_MAX; i++)
        if (route->about->statuses[i] == 201) return true;
    return false;
}
