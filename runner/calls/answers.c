#include "runner/calls/answers.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "client/terminal.h"

#define TOKEN_MAX      12288
#define LIFETIME_MAX_S 2592000
#define EVERY_LEAST_MS 1000
#define EVERY_MOST_MS  60000

static struct result wrong(const char *member, struct error *err)
{
    return failure(err, ERROR_INVALID, "the registry's answer has no valid '%s': is it of another version?", member);
}

/* A text of the registry, made safe for a log. */
static bool take_text(const json_t *json, const char *name, char *text_out, size_t room)
{
    const char *text = json_text_of(json, name);

    if (text == NULL || strlen(text) >= room) return false;
    (void)snprintf(text_out, room, "%s", text);
    terminal_sanitize(text_out);
    return true;
}

struct result answer_read_heartbeat(struct bytes text, struct heartbeat_answer *answer_out, struct error *err)
{
    struct heartbeat_answer answer = {.stop = false};
    OWNED_JSON json = NULL;

    TRY(json_read(text, ANSWER_MAX, &json, err));
    const json_t *stop = json_object_get(json, "stop");
    if (!take_text(json, "state", answer.state, sizeof answer.state)) return wrong("state", err);
    if (!json_is_boolean(stop)) return wrong("stop", err);
    answer.stop = json_is_true(stop);
    if (json_object_get(json, "reason") != NULL && !take_text(json, "reason", answer.reason, sizeof answer.reason))
        return wrong("reason", err);
    if (!json_integer_of(json, "every_ms", &answer.every_ms)) return wrong("every_ms", err);
    if (answer.every_ms < EVERY_LEAST_MS) answer.every_ms = EVERY_LEAST_MS;
    if (answer.every_ms > EVERY_MOST_MS) answer.every_ms = EVERY_MOST_MS;
    *answer_out = answer;
    return SUCCESS;
}

static bool is_token(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";

    return text != NULL && text[0] != '\0' && strlen(text) <= TOKEN_MAX && text_consists_of(bytes_of_text(text), letters);
}

struct result answer_read_token(struct bytes text, struct buffer *token, int64_t *lifetime_s_out, struct error *err)
{
    OWNED_JSON json = NULL;
    int64_t lifetime_s = 0;

    TRY(json_read(text, ANSWER_MAX, &json, err));
    const char *value = json_text_of(json, "access_token");
    if (!is_token(value)) return wrong("access_token", err);
    if (!json_integer_of(json, "expires_in", &lifetime_s) || lifetime_s < 1 || lifetime_s > LIFETIME_MAX_S)
        return wrong("expires_in", err);
    TRY(buffer_add_text(token, value, err));
    *lifetime_s_out = lifetime_s;
    return SUCCESS;
}

struct result answer_read_result(struct bytes text, char state_out[ANSWER_STATE_SIZE], struct error *err)
{
    OWNED_JSON json = NULL;
    char state[ANSWER_STATE_SIZE];

    TRY(json_read(text, ANSWER_MAX, &json, err));
    if (!take_text(json, "state", state, sizeof state)) return wrong("state", err);
    memcpy(state_out, state, sizeof state);
    return SUCCESS;
}

struct result answer_read_offset(struct bytes text, uint64_t *offset_out, struct error *err)
{
    OWNED_JSON json = NULL;
    int64_t offset = -1;

    TRY(json_read(text, ANSWER_MAX, &json, err));
    if (!json_integer_of(json, "offset", &offset) || offset < 0) return wrong("offset", err);
    *offset_out = (uint64_t)offset;
    return SUCCESS;
}

/* The type of a problem (RFC 9457) is a URI reference that ends with its name. */
bool answer_is_suspension(struct bytes text)
{
    static const char name[] = "runner-suspended";
    OWNED_JSON json = NULL;
    struct error ignored = {0};

    if (!json_read(text, ANSWER_MAX, &json, &ignored).ok) return false;
    const char *type = json_text_of(json, "type");
    const size_t length = type == NULL ? 0 : strlen(type), end = sizeof name - 1;
    if (length < end || strcmp(type + length - end, name) != 0) return false;
    return length == end || strchr("/:#", type[length - end - 1]) != NULL;
}
