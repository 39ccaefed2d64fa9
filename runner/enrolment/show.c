#include "runner/enrolment/show.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"

static const char *state_of(const struct runner_state *state, int64_t now_ms)
{
    if (state->document->expires_ms <= now_ms) return "expired";
    if (state->certificate_until_ms == 0) return "waiting for its approval";
    return state->certificate_until_ms <= now_ms ? "without a valid certificate" : "enrolled";
}

static bool set_time(json_t *value, const char *member, int64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];

    if (wall_ms == 0) return true;
    clock_format(wall_ms, text);
    return json_object_set_new(value, member, json_string(text)) == 0;
}

static struct result add_place(const struct runner_state *state, json_t *value, struct error *err)
{
    const struct runner_key *own = &state->own;
    json_t *places = json_deep_copy(own->jurisdictions);
    OWNED_JSON place = json_pack("{s:s, s:s, s:s, s:o, s:I, s:s, s:I, s:O*}", "scope", state->document->scope, "pool", own->pool,
                                 "region", own->region, "jurisdictions", places, "devices", (json_int_t)own->devices, "isolation",
                                 own->isolation, "assurance", (json_int_t)own->assurance, "nodes", own->nodes);

    if (place != NULL && json_object_update(value, place) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a runner");
}

struct result runner_show_json(const struct runner_state *state, json_t **value_out, struct error *err)
{
    char runner[UUID_TEXT_SIZE], signer[ECDSA_THUMBPRINT_SIZE], root[ECDSA_THUMBPRINT_SIZE];
    const struct registry_pins *pins = &state->registry;

    uuid_format(&state->own.runner, runner);
    ecdsa_thumbprint(pins->signer, signer);
    ecdsa_thumbprint(pins->root, root);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "key", state->name, "state",
                                 state_of(state, clock_wall_ms()), "runner", runner, "registry", pins->host, "audience",
                                 pins->audience, "log_key", pins->log_key, "signer", signer, "root", root);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a runner");
    TRY(add_place(state, value, err));
    if (!set_time(value, "expires", state->document->expires_ms) ||
        !set_time(value, "certificate_until", state->certificate_until_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a runner");
    *value_out = GIVE(value);
    return SUCCESS;
}

static struct result add_line(struct buffer *text, const char *member, const json_t *value, struct error *err)
{
    TRY(buffer_format(text, err, "%-18s", member));
    for (size_t i = 0; i < json_array_size(value); i++)
        TRY(buffer_format(text, err, "%s%s", i == 0 ? "" : " ", json_string_value(json_array_get(value, i))));
    if (json_is_string(value)) TRY(buffer_add_text(text, json_string_value(value), err));
    if (json_is_integer(value)) TRY(buffer_format(text, err, "%lld", (long long)json_integer_value(value)));
    return buffer_add_text(text, "\n", err);
}

struct result runner_show_text(const struct runner_state *state, struct buffer *text, struct error *err)
{
    static const char *const members[] = {"key",    "state",   "runner",    "registry",  "audience", "log_key",
                                          "signer", "root",    "scope",     "pool",      "region",   "jurisdictions",
                                          "nodes",  "devices", "isolation", "assurance", "expires",  "certificate_until"};
    OWNED_JSON value = NULL;

    TRY(runner_show_json(state, &value, err));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const json_t *member = json_object_get(value, members[i]);
        if (member != NULL) TRY(add_line(text, members[i], member, err));
    }
    return SUCCESS;
}
