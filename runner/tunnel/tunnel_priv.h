/*
 * runner/tunnel/tunnel_priv.h -- the parts of a tunnel. All but `shared` belongs to its thread.
 */
#pragma once

#include <poll.h>

#include "base/thread.h"
#include "runner/tunnel/tunnel.h"
#include "runner/tunnel/wire.h"

#define GUESTS_MAX (TUNNEL_NODES_MAX + 32) /* who connected, and has not said yet who it is */

#define PAUSE_LEAST_MS 100 /* before the second call of a node */

enum branch_state {
    BRANCH_NONE,  /* no connection */
    BRANCH_DIALS, /* `dialled` is not connected yet */
    BRANCH_MEETS, /* keys and leases are not proven yet */
    BRANCH_OPEN,
    BRANCH_LEFT, /* the other node has said bye, and has gone */
};

/** The way to one other node. */
struct branch {
    const struct tunnel_node *other;
    enum branch_state state;
    int dialled;
    struct wire *wire;
    int64_t due_ms;   /* NONE: of the next call; DIALS, MEETS: the end of patience */
    int64_t pause_ms; /* before the next call */
    int64_t lost_ms;  /* since when it is not open */
    bool said_bye;    /* the other node: its program has ended */
};

/** Somebody that called. */
struct guest {
    struct wire *wire; /* NULL: the place is free */
    int64_t until_ms;
};

struct tunnel {
    struct tunnel_options options;
    struct tls_self *self;
    int bell; /* eventfd: the thread must look at `shared` */
    size_t queue_most;
    struct branch branches[TUNNEL_NODES_MAX];
    size_t count; /* of branches */
    struct guest guests[GUESTS_MAX];
    int64_t heard_ms; /* when the device had its last packet */
    bool has_ended;   /* the program of this node */
    struct tunnel_counts counted;
    struct thread thread;
    struct { /* with the mutex of the thread */
        size_t open;
        bool has_ended, is_broken, is_over; /* over: the programs of all nodes have ended */
        char why[TUNNEL_WHY_SIZE];
        struct tunnel_counts counts;
    } shared;
};

/* branch.c */
/** Calls again when that is due, and gives up what takes too long. */
void branch_look(struct tunnel *tunnel, struct branch *branch, int64_t now_ms);
void branch_poll(const struct branch *branch, struct pollfd *polled);
/** After poll(2). */
void branch_go_on(struct tunnel *tunnel, struct branch *branch, short happened);
/** Takes the open connection of a guest over. */
void branch_join(struct tunnel *tunnel, struct branch *branch, struct wire *wire);
void branch_close(struct branch *branch);
/** Tells the other node that the program of this one has ended. */
void branch_say_bye(struct branch *branch);

/* guests.c */
void guests_accept(struct tunnel *tunnel);
void guest_go_on(struct tunnel *tunnel, struct guest *guest);
void guest_close(struct guest *guest);

/* traffic.c */
/** Sends what the device has. */
void traffic_from_device(struct tunnel *tunnel);
/** Gives a packet of another node to the device. */
void traffic_to_device(struct tunnel *tunnel, const struct branch *branch, struct bytes packet);
