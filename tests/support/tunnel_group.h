/*
 * tests/support/tunnel_group.h -- nodes with tunnels between them, on loopback, with sockets in the place of devices. The header has definitions, so only one
 * source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/talk/talk_sockets.h"
#include "runner/tunnel/tunnel.h"

#define PORT    47500
#define PORTS   64
#define MOST    3
#define SOON_MS 10000

/* ---- nodes ---- */

struct node {
    struct ecdsa_key *key;
    struct tunnel_node self; /* as the others know it */
    struct tunnel_node others[MOST];
    struct tunnel *tunnel;
    int door, device; /* device: the end of the program */
};

struct group {
    size_t count;
    struct node nodes[MOST];
};

static inline void make_node(struct node *node, size_t number)
{
    const struct talk_place place = {.address = "127.0.0.1", .port = PORT, .ports = PORTS};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    node->self.node = (int64_t)number;
    (void)snprintf(node->self.address, sizeof node->self.address, "127.0.0.1");
    memset(node->self.lease, (int)number + 1, sizeof node->self.lease);
    must(ecdsa_key_new(&node->key, &err), &err);
    ecdsa_key_public(node->key, point);
    ecdsa_thumbprint(point, node->self.key);
    must(talk_listen(&place, &node->door, &node->self.port, &err), &err);
}

/* In the place of a TUN device: each read and each write is one packet. */
static inline int make_device(struct node *node)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    node->device = ends[0];
    return ends[1];
}

static inline void start(struct group *group, size_t number, int64_t patience_ms)
{
    struct node *node = &group->nodes[number];
    struct error err = {0};
    size_t count = 0;

    for (size_t i = 0; i < group->count; i++)
        if (i != number) node->others[count++] = group->nodes[i].self;
    struct tunnel_options options = {.key = node->key,
                                     .node = (int64_t)number,
                                     .nodes = (int64_t)group->count,
                                     .others = node->others,
                                     .door = node->door,
                                     .device = make_device(node),
                                     .patience_ms = patience_ms};
    memcpy(options.lease, node->self.lease, sizeof options.lease);
    node->door = -1;
    must(tunnel_start(&options, &node->tunnel, &err), &err);
}

static inline void make_group(struct group *group, size_t count)
{
    group->count = count;
    for (size_t i = 0; i < count; i++) make_node(&group->nodes[i], i);
}

static inline void part(struct group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        tunnel_free(group->nodes[i].tunnel);
        ecdsa_key_free(group->nodes[i].key);
        file_close_owned(&group->nodes[i].door);
        file_close_owned(&group->nodes[i].device);
    }
}
#define GROUP __attribute__((cleanup(part))) struct group

static inline void join(struct group *group)
{
    struct error err = {0};

    for (size_t i = 0; i < group->count; i++) start(group, i, SOON_MS);
    for (size_t i = 0; i < group->count; i++) must(tunnel_wait(group->nodes[i].tunnel, NULL, &err), &err);
}
