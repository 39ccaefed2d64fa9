/* The way to one other node: called if its number is smaller, joined if it is larger, and made again if it was lost. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "runner/talk/talk_sockets.h"
#include "runner/tunnel/tunnel_priv.h"

#define DIAL_MS       10000
#define MEET_MS       10000
#define PAUSE_MOST_MS 2000

void branch_close(struct branch *branch)
{
    wire_free(branch->wire);
    file_close_owned(&branch->dialled);
    branch->wire = NULL;
    branch->dialled = -1;
    branch->state = branch->said_bye ? BRANCH_LEFT : BRANCH_NONE;
}

void branch_say_bye(struct branch *branch)
{
    if (branch->state == BRANCH_OPEN) (void)wire_put(branch->wire, TUNNEL_BYE, (struct bytes){NULL, 0}, SIZE_MAX);
}

static void lose(struct branch *branch)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (branch->state == BRANCH_OPEN) {
        branch->lost_ms = now_ms;
        branch->pause_ms = PAUSE_LEAST_MS;
    }
    branch_close(branch);
    branch->due_ms = now_ms + branch->pause_ms;
    branch->pause_ms = 2 * branch->pause_ms > PAUSE_MOST_MS ? PAUSE_MOST_MS : 2 * branch->pause_ms;
}

static void wait_until(struct branch *branch, enum branch_state state, int64_t patience_ms)
{
    branch->state = state;
    branch->due_ms = clock_monotonic_ms() + patience_ms;
}

static void dial(struct branch *branch)
{
    struct error ignored;

    if (talk_dial(branch->other->address, branch->other->port, &branch->dialled, &ignored).ok)
        wait_until(branch, BRANCH_DIALS, DIAL_MS);
    else lose(branch);
}

void branch_look(struct tunnel *tunnel, struct branch *branch, int64_t now_ms)
{
    const bool is_due = now_ms >= branch->due_ms, may_dial = !tunnel->has_ended;

    if (branch->state == BRANCH_NONE && is_due && may_dial && branch->other->node < tunnel->options.node) dial(branch);
    else if ((branch->state == BRANCH_DIALS || branch->state == BRANCH_MEETS) && is_due) lose(branch);
}

void branch_poll(const struct branch *branch, struct pollfd *polled)
{
    *polled = (struct pollfd){.fd = -1};
    if (branch->wire != NULL) *polled = (struct pollfd){.fd = wire_descriptor(branch->wire), .events = wire_events(branch->wire)};
    else if (branch->state == BRANCH_DIALS) *polled = (struct pollfd){.fd = branch->dialled, .events = POLLOUT};
}

static void open_branch(struct tunnel *tunnel, struct branch *branch)
{
    branch->state = BRANCH_OPEN;
    branch->due_ms = INT64_MAX;
    branch->pause_ms = PAUSE_LEAST_MS;
    tunnel->counted.joined++;
    if (tunnel->has_ended) branch_say_bye(branch);
}

/* It may have called anew before this side knows that the old connection is lost. */
void branch_join(struct tunnel *tunnel, struct branch *branch, struct wire *wire)
{
    branch_close(branch);
    branch->wire = wire;
    open_branch(tunnel, branch);
    branch_go_on(tunnel, branch, POLLIN);
}

/* ---- the caller's side of the meeting ---- */

static void meet(struct tunnel *tunnel, struct branch *branch)
{
    uint8_t hello[TUNNEL_HELLO_SIZE];
    struct error ignored;
    const int fd = branch->dialled;

    branch->dialled = -1;
    if (talk_dial_end(fd) != 0) {
        branch->dialled = fd;
        lose(branch);
        return;
    }
    wait_until(branch, BRANCH_MEETS, MEET_MS);
    if (!wire_new(tunnel->self, fd, true, &branch->wire, &ignored).ok) {
        lose(branch);
        return;
    }
    tunnel_hello_write(tunnel->options.lease, branch->other->lease, hello);
    (void)wire_put(branch->wire, TUNNEL_HELLO, (struct bytes){hello, sizeof hello}, sizeof hello + TUNNEL_HEAD_SIZE);
}

/* The key of another node of this attempt is known, too: it must be the one that was called. */
static bool is_right(const struct tunnel *tunnel, const struct branch *branch, struct bytes hello)
{
    uint8_t wanted[TUNNEL_HELLO_SIZE];

    tunnel_hello_write(branch->other->lease, tunnel->options.lease, wanted);
    return strcmp(wire_key(branch->wire), branch->other->key) == 0 && bytes_equal(hello, (struct bytes){wanted, sizeof wanted});
}

/* False: the connection is no good. */
static bool take(struct tunnel *tunnel, struct branch *branch, const struct tunnel_frame *frame)
{
    if (branch->state == BRANCH_MEETS) {
        if (frame->kind != TUNNEL_HELLO || !is_right(tunnel, branch, frame->content)) return false;
        open_branch(tunnel, branch);
        return true;
    }
    if (frame->kind == TUNNEL_BYE) branch->said_bye = true;
    if (frame->kind == TUNNEL_PACKET) traffic_to_device(tunnel, branch, frame->content);
    return frame->kind != TUNNEL_HELLO;
}

/* ---- */

void branch_go_on(struct tunnel *tunnel, struct branch *branch, short happened)
{
    struct tunnel_frame frame;
    bool is_valid = true;

    if (branch->state == BRANCH_DIALS && happened != 0) meet(tunnel, branch);
    if (branch->wire == NULL || (happened == 0 && wire_waiting(branch->wire) == 0 && !wire_has_more(branch->wire))) return;
    bool goes_on = wire_go_on(branch->wire);
    while (goes_on && wire_next(branch->wire, &frame, &is_valid)) goes_on = take(tunnel, branch, &frame);
    if (!goes_on || !is_valid) lose(branch);
}
