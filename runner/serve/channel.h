/*
 * runner/serve/channel.h -- the talk between the process that serves and its workers: one question, one answer.
 *
 * A worker reads what a registry sends, and runs the sandbox. So the serving process believes a worker only where it can check: whether a
 * lease fits what is free. It alone uses the runner's key to sign: a worker that runs an attempt has the key of this attempt. Both are the same
 * program, so the messages are plain structures.
 */
#pragma once

#include "runner/devices/devices.h"
#include "runner/order/order_check.h"
#include "training/format/spec.h"

#define CHANNEL_AUDIENCE_SIZE 128  /* docs/formats/run.md */
#define CHANNEL_ENVELOPE_SIZE 4096 /* a certificate has some 1,500 bytes, the longest refusal 1,800 */

enum channel_topic {
    CHANNEL_OFFER,   /* what is free now? */
    CHANNEL_TAKEN,   /* whether somebody works on the lease; ERROR_CONFLICT: its worker was killed; ERROR_NOT_FOUND: nobody */
    CHANNEL_TAKE,    /* takes a lease, durably, and the capacity of its run */
    CHANNEL_END,     /* the registry knows the end of the lease; or nobody waits for it */
    CHANNEL_RENEWED, /* there is another client certificate */
    CHANNEL_CERTIFY, /* certifies the key of the attempt, once for a lease that this worker has taken */
    CHANNEL_REFUSE,  /* signs a refusal */
};

struct channel_question {
    enum channel_topic topic;
    struct taken_lease
        lease; /* CHANNEL_TAKE; of CHANNEL_TAKEN, CHANNEL_END and CHANNEL_CERTIFY only its nonce; of CHANNEL_REFUSE its run and digest */
    int64_t cpus, memory_bytes;  /* CHANNEL_TAKE */
    struct device_names uses;    /* CHANNEL_TAKE */
    int64_t from_ms, until_ms;   /* CHANNEL_RENEWED: the life of the certificate */
    char order[RUN_DIGEST_TEXT]; /* CHANNEL_CERTIFY */
    uint8_t key[ECDSA_PUBLIC_SIZE];
    char audience[CHANNEL_AUDIENCE_SIZE], check[RUN_NAME_MAX + 1], reason[ORDER_REASON_SIZE]; /* CHANNEL_REFUSE */
};

struct channel_answer {
    enum error_kind refused; /* ERROR_NONE: done */
    char why[256];
    uint64_t generation;                  /* of the journal */
    int64_t cpus, memory_bytes;           /* free */
    struct device_names taken;            /* by other runs */
    bool is_stopping, is_busy;            /* busy: other runs may end soon, so more is free then */
    char envelope[CHANNEL_ENVELOPE_SIZE]; /* CHANNEL_CERTIFY, CHANNEL_REFUSE: what was signed */
};

/** A pair of sockets: of the serving process, of its worker. */
RESULT channel_open(int ends_out[2], struct error *err);
/** For a worker: waits for the answer. A refusal is an error of its kind. ERROR_UNAVAILABLE: the serving process is gone. */
RESULT channel_ask(int channel, const struct channel_question *question, struct channel_answer *answer_out, struct error *err);

/** CHANNEL_REFUSE for a lease. A reason may quote others, and may be cut within a character. ERROR_INVALID: the lease names no run. */
RESULT channel_refusal(const struct run_envelope *lease, const struct order_refusal *refusal,
                       struct channel_question *question_out, struct error *err);
/** For a worker: has the serving process sign the refusal of a lease, with the runner's key. */
RESULT channel_refuse(int channel, const struct run_envelope *lease, const struct order_refusal *refusal,
                      char envelope_out[CHANNEL_ENVELOPE_SIZE], struct error *err);

/** For the serving process: a question that has arrived. False: there is none, the worker is gone, or it is no question. */
bool channel_hear(int channel, struct channel_question *question_out);
/** False: the worker is gone. */
bool channel_reply(int channel, const struct channel_answer *answer);
