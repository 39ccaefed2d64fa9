#include "runner/calls/start.h"

#include <stdlib.h>

#include "base/memory.h"

#define EVERY_LEAST_MS 200
#define EVERY_MOST_MS  10000

static struct result wrong(const char *member, struct error *err)
{
    return failure(err, ERROR_INVALID, "the registry's answer has no valid '%s': is it of another version?", member);
}

static struct result read_peer(const json_t *json, struct start_peer *peer, struct error *err)
{
    const json_t *listen = json_object_get(json, "listen");

    if (!json_integer_of(json, "node", &peer->node) || peer->node < 0 || peer->node > START_PEERS_MAX) return wrong("node", err);
    peer->lease = json_text_of(json, "lease");
    peer->listen = json_string_value(listen);
    peer->certificate = json_text_of(json, "certificate");
    if (peer->lease == NULL) return wrong("lease", err);
    if (peer->certificate == NULL) return wrong("certificate", err);
    return listen == NULL || peer->listen != NULL ? SUCCESS : wrong("listen", err);
}

static struct result read_peers(const json_t *list, struct start_answer *answer, struct error *err)
{
    if (!json_is_array(list) || json_array_size(list) > START_PEERS_MAX) return wrong("peers", err);
    answer->peers = memory_zeroed(json_array_size(list) + 1, sizeof *answer->peers);
    if (answer->peers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of nodes");
    for (; answer->count < json_array_size(list); answer->count++)
        TRY(read_peer(json_array_get(list, answer->count), &answer->peers[answer->count], err));
    return SUCCESS;
}

static struct result read(struct bytes text, struct start_answer *answer, struct error *err)
{
    TRY(json_read(text, START_ANSWER_MAX, &answer->json, err));
    const json_t *ready = json_object_get(answer->json, "ready");
    if (!json_is_boolean(ready)) return wrong("ready", err);
    answer->is_ready = json_is_true(ready);
    if (answer->is_ready) return read_peers(json_object_get(answer->json, "peers"), answer, err);
    if (!json_integer_of(answer->json, "every_ms", &answer->every_ms)) return wrong("every_ms", err);
    if (answer->every_ms < EVERY_LEAST_MS) answer->every_ms = EVERY_LEAST_MS;
    if (answer->every_ms > EVERY_MOST_MS) answer->every_ms = EVERY_MOST_MS;
    return SUCCESS;
}

struct result start_answer_read(struct bytes text, struct start_answer *answer_out, struct error *err)
{
    struct start_answer answer = {.is_ready = false};

    const struct result done = read(text, &answer, err);
    if (done.ok) *answer_out = answer;
    else start_answer_done(&answer);
    return done;
}

void start_answer_done(struct start_answer *answer)
{
    free(answer->peers);
    json_decref(answer->json);
    *answer = (struct start_answer){.is_ready = false};
}
