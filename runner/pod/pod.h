/*
 * runner/pod/pod.h -- the two sides of a pod: an agent, and the payload's first program (docs/kubernetes.md).
 *
 * They talk through a socket in a volume that both see, one message at a time. The payload's side first confines itself and shows that it is closed in;
 * then it gets the command, and a pipe for the output, from the agent. So neither goes through Kubernetes. If the agent ends, the payload is
 * ended.
 *
 *     payload: hello                                   agent: check ADDRESS PORT ...
 *     payload: closed VERSION MEMORY CPU [UUID TYPE BYTES DRIVER]... | open WHAT   agent: go COUNT PROCESSES TASKS GRACE ARGUMENT ... NAME=VALUE ...   (with the ends of two pipes)
 *     payload: use CPU MEMORY, beat LINE, devices [PERCENT BYTES]...               agent: stop, kill
 *     payload: ended EXIT SIGNAL CPU MEMORY KILLS | failed WHY
 *
 * VERSION, MEMORY and CPU are what the payload's side sees of its control group (limits.h). PROCESSES 0: no limit. When one of several TASKS has failed, the
 * others get TERM, and KILL after GRACE seconds. Devices: those of the container, if the run has any (runner/devices/declared.h).
 */
#pragma once

#include "base/bytes.h"

#define POD_PROGRAM     "sijil-pod"
#define POD_SOCKET      "socket"
#define POD_SHUT        "shut" /* a folder for the agent's user alone, with the file `word` */
#define POD_WORD        "word"
#define POD_HEARTBEAT   "/tmp/.sijil-heartbeat" /* the payload's file: a new first line is a beat */
#define POD_MESSAGE_MAX 131072                  /* the command of an order, which has at most 64 KiB */
#define POD_TEXTS_MAX   1024
#define POD_PATH_SIZE   108 /* sockaddr_un.sun_path */

enum pod_exit { POD_CLOSED = 125, POD_FAILED = 126, POD_NO_PROGRAM = 127 };

struct pod_message {
    bool is_end; /* the other side has gone */
    size_t count;
    const char *texts[POD_TEXTS_MAX + 1]; /* the first says what it is; NULL ends them */
    int pipes[2];                         /* of `go`; else -1. The receiver owns them */
    char bytes[POD_MESSAGE_MAX];
};
/** ERROR_LIMIT for a message that is too long, ERROR_UNAVAILABLE if the other side has gone. `pipes` NULL: none. */
RESULT pod_send(int channel, const char *const *texts, size_t count, const int pipes[2], struct error *err);
/** Waits for the next message. ERROR_INVALID for anything that is no message. */
RESULT pod_receive(int channel, struct pod_message *message, struct error *err);
/** Finds the texts of a message of `length` bytes; for fuzzing. ERROR_INVALID. */
RESULT pod_split(struct pod_message *message, size_t length, struct error *err);
bool pod_is(const struct pod_message *message, const char *what, size_t least_count);

/** Copies this very program into the folder, for the payload's container. */
RESULT pod_place(const char *folder, struct error *err);
/**
 * The first program of the payload's container: process 1 of its own namespace. Wishes: `tasks`: the command has several
 * tasks, or their network: TCP on the pod's own loopback. `devices`: tells which devices the container has. Returns the command's exit status.
 */
struct pod_wishes {
    bool tasks, devices;
};
int pod_payload(const char *folder, const struct pod_wishes *wishes);
/**
 * An agent for trials: shows that the pod is closed in, and runs a command in the payload's container. `words` are ADDRESS PORT ..., "--", and the command;
 * NULL ends them. Returns the command's exit status, and leaves what was shown in /dev/termination-log, where the cluster reads it.
 */
int pod_trial(const char *folder, char **words);
/**
 * The agent of a run: proves itself to the runner at ADDRESS PORT, which has the key PIN, and does what the runner says (runner/talk/talk.h). Returns 0 if
 * the run came to its end.
 */
int pod_agent(const char *folder, char *const words[3]);
