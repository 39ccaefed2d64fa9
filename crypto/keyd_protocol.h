/*
 * crypto/keyd_protocol.h -- the messages between a gateway and sijil-keyd (docs/formats/keyd-protocol.md).
 *
 * A message is u32 length of the rest | u8 version | u8 type | u64 request id | fields. All integers are big-endian; texts
 * and bytes have a u32 length before them. Both sides use the same encoder and the same strict decoder: a field out of its
 * bounds, a flag that is neither 0 nor 1, or one byte too many is ERROR_INVALID. Views in a decoded message point into the
 * frame that it was read from.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"
#include "crypto/ecdsa.h"
#include "crypto/keyd_region.h"
#include "crypto/keyd_replacement.h"

#define KEYD_PROTOCOL_VERSION 6
#define KEYD_HEADER_SIZE      14
#define KEYD_MESSAGE_MAX      (64 * 1024)       /* bytes, the header included */
#define KEYD_POLICY_MAX       (2 * 1024 * 1024) /* an envelope of policy/set.h; a message with it, or with a run, may be larger */
#define KEYD_MESSAGE_LARGE    (KEYD_RUN_MAX + 64 * 1024) /* the bundle of a run of many nodes is the largest */
#define KEYD_ENVELOPE_MAX     8192                       /* of a certificate of deletion */
#define KEYD_NAME_MAX         512                        /* bytes of issuer, audience, subject, source, repository name */

/* number in the protocol, type, name of its encoders, decoders and handler */
#define KEYD_TYPES(X)                                \
    X(1, KEYD_IDENTIFY, identify)                    \
    X(2, KEYD_WRAP, wrap)                            \
    X(3, KEYD_UNWRAP, unwrap)                        \
    X(4, KEYD_TOKEN, token)                          \
    X(5, KEYD_CHECKPOINT, checkpoint)                \
    X(6, KEYD_SUBJECT_INDEX, subject_index)          \
    X(7, KEYD_SUBJECT_KEY_NEW, subject_key_new)      \
    X(8, KEYD_SUBJECT_KEY_OPEN, subject_key_open)    \
    X(9, KEYD_PIN_APPROVER, pin_approver)            \
    X(10, KEYD_PIN_POLICY, pin_policy)               \
    X(11, KEYD_REWRAP, rewrap)                       \
    X(12, KEYD_VERSIONS_UNUSED, versions_unused)     \
    X(13, KEYD_CERTIFY_DELETION, certify_deletion)   \
    X(14, KEYD_LOG_FORKED, log_forked)               \
    X(15, KEYD_PIN_DOCUMENT, pin_document)           \
    X(16, KEYD_DOCUMENTS, documents)                 \
    X(17, KEYD_CERTIFY_RUNNER, certify_runner)       \
    X(19, KEYD_RUN_ORDER, run_order)                 \
    X(20, KEYD_RUN_LEASE, run_lease)                 \
    X(21, KEYD_RUN_ADMISSION, run_admission)         \
    X(22, KEYD_RUN_END, run_end)                     \
    X(23, KEYD_RUN_REQUEST, run_request)             \
    X(24, KEYD_PIN_WITNESSES, pin_witnesses)         \
    X(25, KEYD_COSIGNED, cosigned)                   \
    X(26, KEYD_WITNESSES, witnesses)                 \
    X(27, KEYD_SUBJECT_REWRAP, subject_rewrap)       \
    X(28, KEYD_CERTIFY_ERASURE, certify_erasure)     \
    X(31, KEYD_LOG_ROTATE, log_rotate)               \
    X(32, KEYD_LOG_KEYS, log_keys)                   \
    X(34, KEYD_RECOVER, recover)                     \
    X(35, KEYD_LAST_CHECKPOINT, last_checkpoint)     \
    X(37, KEYD_TOKEN_KEYS, token_keys)               \
    X(38, KEYD_NONCES, nonces)                       \
    X(39, KEYD_BOUND_TOKEN, bound_token)             \
    X(41, KEYD_REPLACE_KEY, replace_key)             \
    X(42, KEYD_KEY_POWER, key_power)                 \
    X(43, KEYD_ROOT_TERMS, root_terms)               \
    X(44, KEYD_PIN_SET, pin_set)                     \
    X(45, KEYD_POLICY_IDS, policy_ids)               \
    X(49, KEYD_CURRENT, current)                     \
    X(50, KEYD_PLACE, place)                         \
    X(51, KEYD_TAKE_CURRENT, take_current)           \
    X(52, KEYD_CERTIFY_ELSEWHERE, certify_elsewhere) \
    X(55, KEYD_PIN_RESTRICTION, pin_restriction)     \
    X(59, KEYD_SHOW_SET, show_set)

enum keyd_type {
#define X(number, type, name) type = (number),
    KEYD_TYPES(X)
#undef X
        KEYD_ERROR = 255 /* the reply to a request that failed */
};

/** Whether a message of this type, or its reply, may be longer than KEYD_MESSAGE_MAX. It holds no secret. */
bool keyd_type_is_large(uint8_t type);

struct keyd_access {
    struct bytes name;
    struct uuid repository;
    bool pull, push, remove;
};

struct keyd_token {
    struct bytes issuer, audience, subject, source;
    struct bytes confirmation; /* empty: none */
    struct bytes request;      /* id of the request whose event records the token; empty: none */
    struct bytes key, acr;     /* of a bound token alone; empty: none */
    int64_t auth_time_s;       /* the same; 0: none */
    struct uuid
        organisation; /* its tokens share one limit. Nil: the issuer's limit for a subject of an issuer, else the registry's */
    uint32_t lifetime_s;
    bool catalog, administration;
    size_t access_count;
    struct keyd_access access[TOKEN_ACCESS_MAX];
};

struct keyd_deletion {
    uint64_t sequence;
    uint8_t leaf_hash[32];
    struct key_scope scope;
    struct bytes name, digest;
    struct uuid blob;
    uint64_t size_bytes;
    int64_t forgotten_ms;
    uint32_t key_version;
    bool is_stored_again;
};

struct keyd_erasure {
    struct bytes pseudonym;
    uint64_t asked, done;
    uint8_t asked_hash[32], done_hash[32];
    uint64_t payloads;
    int64_t erased_ms;
    uint32_t key_version;
};

struct keyd_request {
    enum keyd_type type;
    uint64_t id;
    union {
        struct {
            struct key_binding binding;
            struct bytes data_key; /* DATA_KEY_SIZE bytes */
        } wrap;
        struct {
            struct key_binding binding;
            struct wrapped_key wrapped;
        } unwrap;
        uint32_t unused_below;
        struct keyd_deletion deletion;
        struct keyd_erasure erasure;
        struct keyd_token token;
        struct checkpoint_request checkpoint;
        struct {
            struct bytes issuer, subject;
        } subject_index;
        struct {
            uint8_t index[32];
            struct wrapped_key wrapped; /* not in subject_key_new */
        } subject_key;
        uint8_t approver[ECDSA_PUBLIC_SIZE];
        char finding[KEYD_FINDING_MAX + 1]; /* of log_forked */
        struct document_pin_request pin;    /* pin_policy and pin_set have one envelope */
        struct keyd_policy_ids policy_ids;
        uint8_t principal[DOCUMENT_DIGEST_SIZE]; /* of key_power */
        struct keyd_run run;
        struct keyd_run_request run_request;
        uint8_t ended[32]; /* digest of the request of a run that has ended */
        struct document_chain_request chain;
        struct keyd_witness_policy witness_policy; /* of pin_witnesses */
        struct keyd_cosigned cosigned;
        struct keyd_recovery recovery;
        struct bytes log_order; /* of log_rotate: a DSSE envelope */
        uint8_t nonce[32];      /* of place */
        struct bytes current;   /* of take_current: the envelope of a statement; of show_set: that of the set in force */
    } as;
};

struct keyd_reply {
    enum keyd_type type;
    uint64_t id;
    union {
        struct keyd_identity identity;
        struct wrapped_key wrapped;
        struct bytes data_key;
        struct {
            struct bytes text;
            int64_t issued_at_s;
        } token;
        struct bytes note, envelope, certificate;
        uint8_t index[32];
        struct {
            struct bytes key;           /* 32 bytes */
            struct wrapped_key wrapped; /* not in subject_key_open */
        } subject_key;
        struct document_pin pin;
        struct keyd_documents documents;
        struct root_terms root_terms;
        uint64_t unused_ids; /* of policy_ids */
        int64_t counts_ms;   /* of replace_key */
        struct key_power key_power;
        struct keyd_witnesses witnesses;
        struct keyd_token_keys token_keys;
        struct keyd_nonces nonces;
        struct {
            uint8_t key[ECDSA_PUBLIC_SIZE]; /* that has signed the envelope */
            struct bytes envelope;
        } place;
        struct {
            struct bytes keys, next;
            int64_t retires_s;
        } log_keys;
        struct {
            enum error_kind kind;
            struct bytes message;
        } error;
    } as;
};

/** Appends one whole message to an empty `frame`. ERROR_LIMIT if it is too large, ERROR_INVALID for a bad field. */
RESULT keyd_request_write(struct buffer *frame, const struct keyd_request *request, struct error *err);
RESULT keyd_reply_write(struct buffer *frame, const struct keyd_reply *reply, struct error *err);

/** `message` is one whole message with its header. */
RESULT keyd_request_read(struct bytes message, struct keyd_request *request_out, struct error *err);
RESULT keyd_reply_read(struct bytes message, struct keyd_reply *reply_out, struct error *err);
