/*
 * crypto/keyd_client.h -- what a gateway may ask of the process that holds the keys.
 *
 * sijil-keyd never signs or encrypts bytes that it is handed as such: each message is typed, and keyd composes
 * what it signs. Scopes come from the decision, never from a database row: keyd derives the key from them, so a
 * row that was copied into another project or region does not unwrap.
 *
 * The client is thread-safe: it keeps a few connections to the socket and reconnects by itself. Every call has a
 * deadline; ERROR_UNAVAILABLE means keyd is dead or slow. Replies are checked as strictly as requests.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"
#include "crypto/secret.h"

struct keyd_client;

/* What begins a message that names the socket of sijil-keyd: for the log, not for clients. */
#define KEYD_NOT_REACHED "sijil-keyd can't be reached at "

#define DATA_KEY_SIZE    32
#define WRAPPED_KEY_MAX  256
#define KEYD_TOKEN_MAX   12288
#define KEYD_NOTE_MAX    2048
#define KEYD_VERSIONS_MAX 64 /* of key-encryption keys: a rotation every month for five years */
#define KEYD_PROOF_MAX   63 /* hashes of a consistency or an inclusion proof (RFC 6962) */
#define KEYD_LEAF_MAX    4096 /* bytes of an entry of the log */
#define KEYD_FINDING_MAX 128  /* bytes that say what does not fit in a log */

/** `timeout_ms` is for one call, connect included. Connects lazily: a dead keyd is found by the first call. */
RESULT keyd_client_new(const char *socket_path, unsigned timeout_ms, struct keyd_client **client_out,
                       struct error *err);
/** From the next connection on, only a process of this user is believed to be keyd (SO_PEERCRED); else ERROR_DENIED. */
void keyd_client_expect_uid(struct keyd_client *client, unsigned uid);

/** What a token is for, the widest first; keyd counts it under that one. */
enum mint_scope { MINT_ADMINISTRATION, MINT_CATALOG, MINT_DELETE, MINT_PUSH, MINT_PULL, MINT_NOTHING };
#define MINT_SCOPES 6

#define MINTERS_MAX     64
#define MINTER_ID_SIZE  16
struct minter {
    uint8_t credential[MINTER_ID_SIZE]; /* the first bytes of the SHA-256 of a token's source: "robot:<uuid>" */
    uint64_t count;
};

/** The public halves, and what keyd remembers. */
struct keyd_identity {
    char origin[128];           /* of the audit log, fixed when the key directory was made */
    char log_vkey[256];         /* C2SP note verifier key, Ed25519 */
    char token_kid[44];         /* RFC 7638 thumbprint of the token key */
    uint8_t token_public[65];   /* ECDSA P-256, uncompressed point */
    uint64_t log_size;          /* last size and root that keyd signed */
    uint8_t log_root[32];
    uint64_t policy_epoch;      /* of the policy set that is pinned; 0 before the first */
    uint8_t policy_digest[32];
    uint8_t approver_root[65];  /* ECDSA P-256 public key that signs policy sets; all zero before it is pinned */
    uint64_t unwrap_count;      /* since the key directory was made */
    uint8_t unwrap_chain[32];   /* SHA-256 chain over every unwrap */
    uint32_t key_version;       /* of the key-encryption keys that new data keys are wrapped under */
    uint32_t unused_below;      /* versions below it were told to be unused, and were not asked for since; 0: none */
    uint8_t document_public[65]; /* ECDSA P-256: what certificates of deletion are signed with */
    uint64_t mints[MINT_SCOPES]; /* tokens that were signed since the key directory was made, each under its widest scope */
    uint64_t mints_lost;        /* at most so many more, of which a crash left no count */
    size_t minter_count;        /* credentials that got tokens for /api/v1, as far as keyd has room for them */
    struct minter minters[MINTERS_MAX];
    size_t version_count;       /* versions that still unwrap */
    uint32_t versions[KEYD_VERSIONS_MAX];
};
RESULT keyd_identify(struct keyd_client *client, struct keyd_identity *identity_out, struct error *err);

/** Where a wrapped key is valid: taken from the decision. */
struct key_scope {
    struct uuid organisation, project;
    char region[64];
};

/** The object that a data key belongs to; its commitment (docs/formats/sjb1.md) is bound to the key. */
struct key_binding {
    struct key_scope scope;
    struct uuid blob;
    uint8_t commitment[32];
};
struct key_binding key_binding_of(const struct key_scope *scope, const struct uuid *blob,
                                  const uint8_t commitment[32]);

struct wrapped_key {
    uint32_t version; /* of the key-encryption key */
    size_t length;
    uint8_t bytes[WRAPPED_KEY_MAX];
};

RESULT keyd_wrap(struct keyd_client *client, const struct key_binding *binding, const struct secret *data_key,
                 struct wrapped_key *wrapped_out, struct error *err);
/** ERROR_CORRUPT when the wrapped key does not belong to this scope, blob and commitment; ERROR_LIMIT past the
 *  project's rate. */
RESULT keyd_unwrap(struct keyd_client *client, const struct key_binding *binding, const struct wrapped_key *wrapped,
                   struct secret **data_key_out, struct error *err);

/** The same key, wrapped under the newest version; it does not leave sijil-keyd. Errors of keyd_unwrap(). */
RESULT keyd_rewrap(struct keyd_client *client, const struct key_binding *binding, const struct wrapped_key *wrapped,
                   struct wrapped_key *wrapped_out, struct error *err);
/**
 * Tells keyd that no row names a version below `version` any more: it may be destroyed (sijil-keyd --destroy-version).
 * keyd takes that back by itself when it is asked for such a version. ERROR_INVALID for a version that is to come.
 */
RESULT keyd_versions_unused(struct keyd_client *client, uint32_t version, struct error *err);

/** What was deleted, as the database and the log have it; keyd adds what it knows of the versions, and signs. */
struct deletion_request {
    uint64_t sequence;            /* of the event key.forgotten */
    uint8_t leaf_hash[32];
    struct key_scope scope;
    const char *name, *digest;    /* of the project; of the content */
    struct uuid blob;
    uint64_t size_bytes;
    int64_t forgotten_ms;
    uint32_t key_version;
    bool is_stored_again;
};
/** Appends a DSSE envelope (audit/format/deletion.h). ERROR_INVALID for a version that is to come. */
RESULT keyd_certify_deletion(struct keyd_client *client, const struct deletion_request *request, struct buffer *envelope,
                             struct error *err);

/** One repository that a token may be used on. */
struct token_access {
    const char *name;                    /* "acme/models/digits" */
    struct uuid repository;              /* nil: does not exist yet */
    bool pull, push, remove;
};
#define TOKEN_ACCESS_MAX 16

/** keyd fills in iss, iat, jti itself, caps `lifetime_s` at 900, and signs ES256 with typ "sijil-reg+jwt". */
struct token_request {
    const char *issuer, *audience;       /* the registry's public URL; its service id */
    const char *subject;                 /* "robot:<uuid>" or "ext:<issuer digest>:<subject>" */
    const char *source;                  /* id of the credential behind it: what to revoke */
    struct uuid organisation;            /* whose tokens are limited together; nil: the registry's, or, of a subject, its issuer's */
    unsigned lifetime_s;
    const char *confirmation;            /* x5t#S256 of the client's certificate, or NULL */
    const char *request;                 /* id of the request whose event records the mint: jti begins with it; or NULL */
    bool catalog;                        /* scope registry:catalog:* was granted */
    bool administration;                 /* scope for /api/v1 was granted */
    size_t access_count;
    struct token_access access[TOKEN_ACCESS_MAX];
};
/** Appends the compact JWT to `token`. */
RESULT keyd_sign_token(struct keyd_client *client, const struct token_request *request, struct buffer *token,
                       int64_t *issued_at_s_out, struct error *err);

/**
 * Signs a checkpoint for (size, root), given the consistency proof from keyd's last size. Refuses (ERROR_CORRUPT)
 * what shrinks or forks the log, and (ERROR_INVALID) a `now_s` more than 60 s off keyd's own clock. The note goes
 * into `note` (docs/formats/audit-log.md sections 6 and 7).
 */
struct checkpoint_request {
    uint64_t old_size, size;
    uint8_t root[32];
    int64_t now_s;               /* the database's clock */
    size_t proof_count;
    uint8_t proof[KEYD_PROOF_MAX][32];
};
RESULT keyd_sign_checkpoint(struct keyd_client *client, const struct checkpoint_request *request,
                            struct buffer *note, struct error *err);

/**
 * A gateway found that the log is not the one that was signed: `finding` says where, and is cut at KEYD_FINDING_MAX bytes. keyd keeps the
 * first one in its ledger and signs no checkpoint any more (ERROR_FORKED), until an operator says otherwise (sijil-keyd --log-restored).
 */
RESULT keyd_log_forked(struct keyd_client *client, const char *finding, struct error *err);

/** HMAC under keyd's index key: finds a subject without naming it. */
RESULT keyd_subject_index(struct keyd_client *client, const char *issuer, const char *subject, uint8_t index_out[32],
                          struct error *err);
/** A fresh subject key, and the same wrapped for the database. */
RESULT keyd_subject_key_new(struct keyd_client *client, const uint8_t index[32], struct secret **key_out,
                            struct wrapped_key *wrapped_out, struct error *err);
RESULT keyd_subject_key_open(struct keyd_client *client, const uint8_t index[32], const struct wrapped_key *wrapped,
                             struct secret **key_out, struct error *err);

/** Pins the public key that policy sets must be signed with; once only, at the first start. */
RESULT keyd_pin_approver(struct keyd_client *client, const uint8_t public_key[65], struct error *err);

#define DOCUMENT_KINDS_MAX      16 /* of signed documents (documents/format/kinds.def), that the ledger of keyd has room for */
#define DOCUMENT_APPROVERS_MAX  12 /* the same of keys whose approvals count */
#define DOCUMENT_SIGNATURES_MAX 4  /* of a document: its holder's and two approvers', and one more */
#define DOCUMENT_DIGEST_SIZE    32

/** What keyd has pinned of one kind. */
struct document_pin {
    uint64_t epoch; /* of policy sets the set's; else the number of the newest document's event. 0: none yet */
    uint8_t digest[DOCUMENT_DIGEST_SIZE]; /* of policy sets the set's; else the chain over all that was pinned */
};
/** A key whose approvals count, until it expires or is revoked. */
struct document_approver {
    uint8_t point[65];                       /* all zero: the place is free */
    uint8_t principal[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of whose it is: nobody approves what is his own */
    int64_t expires_ms;
    bool is_revoked; /* kept until it would have expired, so that its old enrolment does not bring it back */
};
struct keyd_documents {
    uint8_t root[65]; /* the approver that was pinned first; all zero: nobody yet */
    struct document_pin pins[DOCUMENT_KINDS_MAX]; /* of the kind with the number i + 1 */
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX];
};
/** Whose signatures count, and what is in force. */
RESULT keyd_ask_documents(struct keyd_client *client, struct keyd_documents *documents_out, struct error *err);

/** A signed document, and the proof that its event stands in the log that keyd has signed. */
struct document_pin_request {
    size_t envelope_count;
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX]; /* DSSE, one for each signature */
    struct bytes leaf;     /* of the event that brings it into force, byte for byte */
    uint64_t sequence;     /* of that event */
    uint64_t size;         /* of the log at keyd's last checkpoint, which the proof leads to */
    size_t proof_count;
    uint8_t proof[KEYD_PROOF_MAX][32];
};
/**
 * keyd counts the signatures and pins the document. ERROR_DENIED: too few keys that count have signed it, or its epoch is not larger
 * than the pinned one (the same document again is no error). ERROR_NOT_FOUND: the leaf is not of an event that names exactly these
 * envelopes, or does not stand in the log that was signed. ERROR_CONFLICT: keyd's last checkpoint has another size; ask keyd_identify()
 * and prove again.
 */
RESULT keyd_pin_document(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                         struct error *err);
/** The same for a policy set, which is larger and has one envelope. */
RESULT keyd_pin_policy(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                       struct error *err);

void keyd_client_free(struct keyd_client *client);
DEFINE_OWNED(keyd_client);
