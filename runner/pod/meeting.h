/*
 * runner/pod/meeting.h -- what every agent does with the payload's side: shows that the pod is closed, meets it, lets it go.
 */
#pragma once

#include <signal.h>

#include "runner/pod/pod.h"
#include "runner/sandbox/proof.h"

struct meeting {
    const char *folder; /* that both containers see */
    size_t address_count;
    struct proof_address addresses[PROOF_ADDRESSES_MAX]; /* that must be out of reach */
    int listening, channel, output; /* channel: to the payload's side; output: the end of a pipe. -1: none yet */
};
#define MEETING_EXTRA_MAX 8
#define MEETING(gate)     ((struct meeting){.folder = (gate), .listening = -1, .channel = -1, .output = -1})

/**
 * Notes the addresses: the cluster's API, its name server, those of proof_addresses(), and `words` (ADDRESS PORT ..., `count` texts). ERROR_DENIED: the pod is
 * not told where its API is; ERROR_INVALID.
 */
RESULT meeting_find_addresses(struct meeting *meeting, const char *const *words, size_t count, struct error *err);
/** Shows that nothing answers at these addresses, although an agent has sockets. ERROR_DENIED. */
RESULT meeting_show_silence(const struct meeting *meeting, struct error *err);
/** From now on the payload's side can call; if this process ends, so does the payload's side. */
RESULT meeting_listen(struct meeting *meeting, struct error *err);
/** Waits for the payload's side, until `*stops` is not 0. ERROR_DENIED: it has the agent's user. */
RESULT meeting_wait(struct meeting *meeting, const volatile sig_atomic_t *stops, struct error *err);
/** Has the payload's side show that it is closed in. `message` has its answer: what it sees of its limits. ERROR_DENIED says what is open. */
RESULT meeting_have_it_shown(struct meeting *meeting, struct pod_message *message, struct error *err);
/** `texts` are a `go` without its first word: COUNT PROCESSES TASKS GRACE ARGUMENT ... NAME=VALUE ... Opens `output`. */
RESULT meeting_let_it_go(struct meeting *meeting, const char *const *texts, size_t count, struct error *err);
void meeting_done(struct meeting *meeting);
