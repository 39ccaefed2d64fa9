/*
 * runner/serve/channel.h -- the talk between the process that serves and its workers: one question, one answer.
 *
 * A worker reads what a registry sends, and runs the sandbox. So the serving process believes a worker only where it can check: whether a
 * lease fits what is free. Both are the same program, so the messages are plain structures.
 */
#pragma once

#include "runner/devices/devices.h"
#include "runner/order/lease_journal.h"

enum channel_topic {
    CHANNEL_OFFER,   /* what is free now? */
    CHANNEL_TAKEN,   /* whether somebody works on the lease; ERROR_CONFLICT: its worker was killed; ERROR_NOT_FOUND: nobody */
    CHANNEL_TAKE,    /* takes a lease, durably, and the capacity of its run */
    CHANNEL_END,     /* the registry knows the end of the lease; or nobody waits for it */
    CHANNEL_RENEWED, /* there is another client certificate */
};

struct channel_question {
    enum channel_topic topic;
    struct taken_lease lease;   /* CHANNEL_TAKE; of CHANNEL_TAKEN and CHANNEL_END only its nonce */
    int64_t cpus, memory_bytes; /* CHANNEL_TAKE */
    struct device_names uses;   /* CHANNEL_TAKE */
    int64_t from_ms, until_ms;  /* CHANNEL_RENEWED: the life of the certificate */
};

struct channel_answer {
    enum error_kind refused; /* ERROR_NONE: done */
    char why[256];
    uint64_t generation;        /* of the journal */
    int64_t cpus, memory_bytes; /* free */
    struct device_names taken;  /* by other runs */
    bool is_stopping, is_busy;  /* busy: other runs may end soon, so more is free then */
};

/** A pair of sockets: of the serving process, of its worker. */
RESULT channel_open(int ends_out[2], struct error *err);
/** For a worker: waits for the answer. A refusal is an error of its kind. ERROR_UNAVAILABLE: the serving process is gone. */
RESULT channel_ask(int channel, const struct channel_question *question, struct channel_answer *answer_out, struct error *err);

/** For the serving process: a question that has arrived. False: there is none, the worker is gone, or it is no question. */
bool channel_hear(int channel, struct channel_question *question_out);
/** False: the worker is gone. */
bool channel_reply(int channel, const struct channel_answer *answer);
