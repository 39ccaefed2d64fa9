/* The other nodes of a leased run: the start that they make together, and the network between them. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "runner/order/order_peers.h"
#include "runner/payload/payload.h"
#include "runner/serve/leased_priv.h"
#include "runner/talk/talk_sockets.h"

#define JOIN_MS 60000 /* until all nodes are connected, and until a lost connection is there again */
#define LINGER_MS \
    120000 /* for what the kernel of an ended sandbox still sends; Linux itself gives connections without a program up after about as long */

struct nodes {
    struct start_answer answer;
    int door, device;
    char listen[TALK_WHERE_SIZE]; /* "": the nodes don't reach each other */
    struct tunnel_node others[TUNNEL_NODES_MAX];
    struct tunnel *tunnel;
};

static struct result make_nodes(struct leased *leased, struct error *err)
{
    if (leased->nodes != NULL) return SUCCESS;
    leased->nodes = memory_zeroed(1, sizeof *leased->nodes);
    if (leased->nodes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the nodes of a run");
    leased->nodes->door = leased->nodes->device = -1;
    return SUCCESS;
}

struct result leased_take_device(void *context, int device, struct error *err)
{
    struct leased *leased = context;
    const struct result made = make_nodes(leased, err);

    if (made.ok) leased->nodes->device = device;
    else (void)close(device);
    return made;
}

/* ---- the start ---- */

static struct result open_door(struct leased *leased, struct error *err)
{
    const struct serve_options *options = leased->worker->options;
    const struct talk_place place = {.address = options->tunnel_listen, .port = options->tunnel_port, .ports = options->parallel};
    unsigned port = 0;

    TRY(make_nodes(leased, err));
    if (!payload_joins_nodes(leased->verdict->spec)) return SUCCESS;
    TRY(talk_listen(&place, &leased->nodes->door, &port, err));
    talk_where_write(options->tunnel_address, port, leased->nodes->listen);
    return SUCCESS;
}

static struct result start_once(struct leased *leased, const char *listen, struct start_answer *answer, struct error *err)
{
    for (unsigned attempt = 0; !calls_start(leased->worker->calls, &leased->run, listen, answer, err).ok; attempt++)
        if (!worker_tries_again(err, attempt, leased->ends_ms)) return (struct result){.ok = false};
    return SUCCESS;
}

static struct result wait_for_all(struct leased *leased, struct error *err)
{
    struct start_answer *answer = &leased->nodes->answer;
    const char *listen = leased->nodes->listen[0] == '\0' ? NULL : leased->nodes->listen;

    for (;;) {
        TRY(start_once(leased, listen, answer, err));
        if (answer->is_ready) return SUCCESS;
        const int64_t every_ms = answer->every_ms;
        start_answer_done(answer);
        if (clock_wall_ms() + every_ms < leased->ends_ms && worker_pause(every_ms)) continue;
        leased->is_ready = false; /* nothing has started, so the registry is told */
        return failure(err, ERROR_UNAVAILABLE, "the other nodes of the run have not come");
    }
}

struct result leased_meet(struct leased *leased, struct error *err)
{
    struct start_answer answer;

    leased->is_ready = true;
    if (payload_nodes(leased->verdict->spec) == 1) {
        TRY(start_once(leased, NULL, &answer, err));
        start_answer_done(&answer);
        return SUCCESS;
    }
    TRY(open_door(leased, err));
    return wait_for_all(leased, err);
}

/* ---- the network ---- */

/* Whoever has the lease of another node chooses its address: it must not make this machine call itself, or its metadata service. */
static struct result read_place(const struct leased *leased, const struct start_peer *peer, struct tunnel_node *other,
                                struct error *err)
{
    if (peer->listen == NULL || !talk_where_read(peer->listen, other->address, &other->port))
        return failure(err, ERROR_INVALID, "the registry does not say where node %lld is", (long long)other->node);
    if (talk_may_call(leased->worker->options->tunnel_address, other->address)) return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "node %lld says that it is at %.48s, and no other machine is there: its --tunnel-address has to be its address in "
        "the network of the nodes",
        (long long)other->node, other->address);
}

static struct result find_others(struct leased *leased, struct error *err)
{
    const struct start_answer *answer = &leased->nodes->answer;
    const struct run_trust trust = runner_state_trust(leased->worker->options->state);
    struct order_claim claims[START_PEERS_MAX];
    struct order_peer peers[START_PEERS_MAX];

    for (size_t i = 0; i < answer->count; i++)
        claims[i] = (struct order_claim){
            .node = answer->peers[i].node, .lease = answer->peers[i].lease, .certificate = answer->peers[i].certificate};
    const struct order_claims said = {.each = claims, .count = answer->count, .now_ms = clock_wall_ms()};
    TRY(order_peers_check(leased->verdict->bundle, &trust, &said, peers, err));
    for (size_t i = 0; i < answer->count; i++) {
        struct tunnel_node *other = &leased->nodes->others[i];
        other->node = peers[i].node;
        memcpy(other->key, peers[i].key, sizeof other->key);
        memcpy(other->lease, peers[i].lease, sizeof other->lease);
        if (leased->nodes->listen[0] != '\0') TRY(read_place(leased, &answer->peers[i], other, err));
    }
    return SUCCESS;
}

static struct result start_tunnel(struct leased *leased, struct error *err)
{
    struct nodes *nodes = leased->nodes;
    struct tunnel_options options = {.key = leased->key,
                                     .node = leased->run.node,
                                     .nodes = payload_nodes(leased->verdict->spec),
                                     .others = nodes->others,
                                     .door = nodes->door,
                                     .device = nodes->device,
                                     .patience_ms = JOIN_MS};

    memcpy(options.lease, leased->verdict->taken.digest, sizeof options.lease);
    nodes->door = nodes->device = -1;
    TRY(tunnel_start(&options, &nodes->tunnel, err));
    return tunnel_wait(nodes->tunnel, &worker_cancelled, err);
}

struct result leased_join(struct leased *leased, struct error *err)
{
    if (leased->nodes == NULL) return SUCCESS;
    TRY(find_others(leased, err));
    start_answer_done(&leased->nodes->answer);
    return leased->nodes->listen[0] == '\0' ? SUCCESS : start_tunnel(leased, err);
}

void leased_watch_nodes(struct leased *leased)
{
    char why[TUNNEL_WHY_SIZE];

    if (leased->nodes == NULL || leased->nodes->tunnel == NULL || !tunnel_is_broken(leased->nodes->tunnel, why)) return;
    leased_fail(leased, why);
    leased->has_lost_nodes = true;
    worker_cancelled = 1;
}

void leased_part(struct leased *leased)
{
    if (leased->nodes != NULL && leased->nodes->tunnel != NULL) tunnel_end(leased->nodes->tunnel);
}

static void say_counts(const struct leased *leased, struct tunnel *tunnel)
{
    const struct tunnel_counts counts = tunnel_counts(tunnel);
    char packets[24], bytes[24], dropped[24], strangers[24]; /* 64-bit numbers */

    (void)snprintf(packets, sizeof packets, "%llu", (unsigned long long)counts.packets);
    (void)snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)counts.bytes);
    (void)snprintf(dropped, sizeof dropped, "%llu", (unsigned long long)counts.dropped);
    (void)snprintf(strangers, sizeof strangers, "%llu", (unsigned long long)counts.strangers);
    log_line(LOG_INFO, "the network between nodes has ended", "run", leased->run.run, "packets", packets, "bytes", bytes,
             "dropped", dropped, "strangers", strangers, NULL);
}

void leased_leave(struct leased *leased)
{
    struct nodes *nodes = leased->nodes;

    if (nodes == NULL) return;
    if (nodes->tunnel != NULL) {
        if (leased->has_ended) tunnel_linger(nodes->tunnel, LINGER_MS, &worker_cancelled);
        say_counts(leased, nodes->tunnel);
    }
    tunnel_free(nodes->tunnel);
    start_answer_done(&nodes->answer);
    file_close_owned(&nodes->door);
    file_close_owned(&nodes->device);
    free(nodes);
    leased->nodes = NULL;
}
