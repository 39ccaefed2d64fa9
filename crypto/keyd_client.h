/*
 * crypto/keyd_client.h -- the requests that a gateway may send to the process that holds the keys.
 *
 * sijil-keyd never signs or encrypts bytes as they are given to it: each message is typed, and keyd composes what it signs.
 * Key scopes come from the decision, never from a row of the database. keyd derives the wrapping key from the scope, so a
 * row that was copied to another project or region does not unwrap.
 *
 * The client is thread-safe: it keeps a few connections to the socket and reconnects by itself. Every call has a deadline;
 * ERROR_UNAVAILABLE means that keyd is dead or slow. Replies are checked as strictly as requests.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"
#include "crypto/secret.h"

struct keyd_client;

/* The start of a message that names the socket of sijil-keyd: it is for the log, not for clients. */
#define KEYD_NOT_REACHED "sijil-keyd can't be reached at "

#define DATA_KEY_SIZE             32
#define WRAPPED_KEY_MAX           256
#define KEYD_TOKEN_MAX            12288
#define KEYD_NOTE_MAX             2048
#define KEYD_VERSIONS_MAX         64   /* of key-encryption keys: a rotation every month for five years */
#define KEYD_PROOF_MAX            63   /* hashes of a consistency or an inclusion proof (RFC 6962) */
#define KEYD_LEAF_MAX             4096 /* bytes of an entry of the log */
#define KEYD_WITNESS_POLICY_MAX   16384
#define KEYD_WITNESS_ENVELOPE_MAX 32768
#define KEYD_LOG_ROTATION_MAX     8192  /* bytes of the order to change the log's key */
#define KEYD_LOG_KEYS_MAX         24576 /* bytes of the keys of the log, with their handovers */
#define KEYD_COSIGNED_MAX         12288 /* bytes of a checkpoint with its cosignatures */
#define KEYD_FINDING_MAX          128   /* bytes of the description of a log that was changed */

/** `timeout_ms` is for one call, connect included. Nothing is connected yet: the first call finds a dead keyd. */
RESULT keyd_client_new(const char *socket_path, unsigned timeout_ms, struct keyd_client **client_out, struct error *err);

/** Whether a failed call has this answer also the next time: sijil-keyd has looked at the request, and refuses it. */
static inline bool keyd_has_refused(enum error_kind kind)
{
    return kind == ERROR_DENIED || kind == ERROR_INVALID || kind == ERROR_CONFLICT;
}

/** The scopes of tokens, the widest first. keyd counts a token under its widest scope. */
enum mint_scope { MINT_ADMINISTRATION, MINT_CATALOG, MINT_DELETE, MINT_PUSH, MINT_PULL, MINT_NOTHING };
#define MINT_SCOPES 6

#define MINTERS_MAX    64
#define MINTER_ID_SIZE 16
struct minter {
    uint8_t credential[MINTER_ID_SIZE]; /* the first bytes of the SHA-256 of a token's source: "robot:<uuid>" */
    uint64_t count;
};

/** The public keys, and the state that keyd keeps. */
struct keyd_identity {
    char origin[128];         /* of the audit log, fixed when the key directory was made */
    char log_vkey[256];       /* C2SP note verifier key, Ed25519: the newest that signs */
    char token_kid[44];       /* RFC 7638 thumbprint of the token key */
    uint8_t token_public[65]; /* ECDSA P-256, uncompressed point */
    uint64_t log_size;        /* the last size that keyd signed, and its root */
    uint8_t log_root[32];
    uint64_t policy_epoch; /* of the pinned policy set; 0 before the first */
    uint8_t policy_digest[32];
    uint8_t approver_root[65];    /* ECDSA P-256 public key that signs policy sets; all zero before it is pinned */
    uint64_t unwrap_count;        /* since the key directory was made */
    uint8_t unwrap_chain[32];     /* SHA-256 chain over every unwrap */
    uint32_t key_version;         /* of the key-encryption keys that wrap new data keys */
    uint32_t unused_below;        /* no row names a version below it, and no such version was asked for since; 0: not known */
    uint8_t document_public[65];  /* ECDSA P-256: verifies certificates of deletion */
    uint8_t runner_authority[65]; /* ECDSA P-256: verifies certificates of runners */
    uint64_t mints[MINT_SCOPES];  /* tokens signed since the key directory was made, each under its widest scope */
    uint64_t mints_lost;          /* the most tokens that a crash may have left uncounted */
    size_t minter_count;          /* credentials that got tokens for /api/v1; keyd has room for a limited number */
    struct minter minters[MINTERS_MAX];
    size_t version_count; /* versions that still unwrap */
    uint32_t versions[KEYD_VERSIONS_MAX];
};
RESULT keyd_identify(struct keyd_client *client, struct keyd_identity *identity_out, struct error *err);
struct ecdsa_key;
/** The key with which keyd signs documents, orders, leases and admissions. */
RESULT keyd_signer(struct keyd_client *client, struct ecdsa_key **key_out, struct error *err);

/** Where a wrapped key is valid; it comes from the decision. */
struct key_scope {
    struct uuid organisation, project;
    char region[64];
};

/** The object that a data key belongs to. Its commitment (docs/formats/sjb1.md) is bound to the key. */
struct key_binding {
    struct key_scope scope;
    struct uuid blob;
    uint8_t commitment[32];
};
struct key_binding key_binding_of(const struct key_scope *scope, const struct uuid *blob, const uint8_t commitment[32]);

struct wrapped_key {
    uint32_t version; /* of the key-encryption key */
    size_t length;
    uint8_t bytes[WRAPPED_KEY_MAX];
};

RESULT keyd_wrap(struct keyd_client *client, const struct key_binding *binding, const struct secret *data_key,
                 struct wrapped_key *wrapped_out, struct error *err);
/** ERROR_CORRUPT if the wrapped key does not belong to this scope, blob and commitment; ERROR_LIMIT beyond the project's rate. */
RESULT keyd_unwrap(struct keyd_client *client, const struct key_binding *binding, const struct wrapped_key *wrapped,
                   struct secret **data_key_out, struct error *err);

/** Wraps the same key under the newest version; the key does not leave sijil-keyd. Errors of keyd_unwrap(). */
RESULT keyd_rewrap(struct keyd_client *client, const struct key_binding *binding, const struct wrapped_key *wrapped,
                   struct wrapped_key *wrapped_out, struct error *err);
/**
 * Tells keyd that no row names a version below `version` any more: these versions may be destroyed (sijil-keyd
 * --destroy-version). If such a version is asked for later, keyd revokes this statement by itself. ERROR_INVALID for a
 * version that does not exist yet.
 */
RESULT keyd_versions_unused(struct keyd_client *client, uint32_t version, struct error *err);

/** The facts of a deletion in the database and the log. keyd adds its knowledge of the versions, and signs. */
struct deletion_request {
    uint64_t sequence; /* of the event key.forgotten */
    uint8_t leaf_hash[32];
    struct key_scope scope;
    const char *name, *digest; /* of the project; of the content */
    struct uuid blob;
    uint64_t size_bytes;
    int64_t forgotten_ms;
    uint32_t key_version;
    bool is_stored_again;
};
/** Appends a DSSE envelope (audit/format/deletion.h). ERROR_INVALID for a version that does not exist yet; ERROR_DENIED: the region has another sijil-keyd; ERROR_CONFLICT: keyd_show_set() first. */
RESULT keyd_certify_deletion(struct keyd_client *client, const struct deletion_request *request, struct buffer *envelope,
                             struct error *err);

/** One repository, and the actions that a token permits there. */
struct token_access {
    const char *name;       /* "acme/models/digits" */
    struct uuid repository; /* nil: it does not exist yet */
    bool pull, push, remove;
};
#define TOKEN_ACCESS_MAX 16

/** keyd sets iss, iat and jti itself, limits `lifetime_s` to 900, and signs ES256 with typ "sijil-reg+jwt". */
struct token_request {
    const char *issuer, *audience; /* the registry's public URL; its service id */
    const char *subject;           /* "robot:<uuid>" or "ext:<issuer digest>:<subject>" */
    const char *source;            /* id of the credential behind the token, for revocation */
    struct uuid
        organisation; /* its tokens share one limit. Nil: the issuer's limit for a subject of an issuer, else the registry's */
    unsigned lifetime_s;
    const char *confirmation; /* x5t#S256 of the client's certificate, or NULL */
    const char *key;          /* thumbprint of the client's key (RFC 9449), or NULL */
    const char *acr;          /* of the login behind it, or NULL */
    int64_t auth_time_s;      /* the same; 0: none */
    const char *request;      /* id of the request whose event records the token, or NULL; the jti begins with it */
    bool catalog;             /* scope registry:catalog:* was granted */
    bool administration;      /* scope for /api/v1 was granted */
    size_t access_count;
    struct token_access access[TOKEN_ACCESS_MAX];
};
/** Appends the compact JWT to `token`. */
RESULT keyd_sign_token(struct keyd_client *client, const struct token_request *request, struct buffer *token,
                       int64_t *issued_at_s_out, struct error *err);

/**
 * Signs a checkpoint for (size, root), given the consistency proof from keyd's last size. Refuses (ERROR_CORRUPT) a log
 * that shrank or forked, and (ERROR_INVALID) a `now_s` more than 60 s off keyd's own clock. The note is appended to `note`
 * (docs/formats/audit-log.md sections 6 and 7).
 */
struct checkpoint_request {
    uint64_t old_size, size;
    uint8_t root[32];
    int64_t now_s; /* the database's clock */
    size_t proof_count;
    uint8_t proof[KEYD_PROOF_MAX][32];
};
RESULT keyd_sign_checkpoint(struct keyd_client *client, const struct checkpoint_request *request, struct buffer *note,
                            struct error *err);

/**
 * Pins which witnesses must cosign the log (keyd/quorum.h). The first policy is taken as it is; another one needs the envelope of the root of
 * approvers. ERROR_DENIED: another one is pinned; ERROR_INVALID: it is no policy, or about another log.
 */
struct keyd_witness_policy {
    struct bytes policy;   /* C2SP tlog-policy, at most KEYD_WITNESS_POLICY_MAX */
    struct bytes envelope; /* empty: none */
};
RESULT keyd_pin_witnesses(struct keyd_client *client, const struct keyd_witness_policy *policy, struct error *err);
/**
 * Shows keyd a checkpoint with the cosignatures of the pinned quorum. ERROR_DENIED: there is no quorum, or, after a start of keyd, none that
 * has cosigned the last checkpoint since. ERROR_FORKED: keyd's ledger knows another log.
 */
struct keyd_cosigned {
    struct bytes policy, note; /* the pinned policy; at most KEYD_COSIGNED_MAX */
};
RESULT keyd_cosigned(struct keyd_client *client, const struct keyd_cosigned *cosigned, struct error *err);
struct keyd_witnesses {
    bool is_pinned;
    bool awaits;     /* since its start keyd has seen no quorum on the last checkpoint: it signs nothing */
    bool is_without; /* for too long: no document comes into force, and no run is ordered */
    uint64_t epoch;  /* of the pinned policy; 0: of the first configuration */
    uint8_t digest[32];
    uint64_t log_size; /* the last that was signed */
    uint8_t log_root[32];
    uint64_t since_s; /* of the newest quorum since keyd's start; 0: none */
    uint32_t patience_s;
};
RESULT keyd_witnesses(struct keyd_client *client, struct keyd_witnesses *witnesses_out, struct error *err);

/**
 * Lets the log go on under a new origin (keyd/recovery.h). ERROR_DENIED: too few officers have signed, the quorum of the pinned witnesses has not cosigned the
 * statement's checkpoint, or it is about another registry. ERROR_CONFLICT: it is about another state of the log than keyd has signed last.
 */
#define KEYD_STATEMENT_MAX           16384
#define KEYD_STATEMENT_SIGNATURES    8
#define KEYD_STATEMENT_SIGNATURE_MAX 72 /* ECDSA_DER_MAX */
struct keyd_recovery {
    struct bytes statement; /* audit/format/succession.h */
    struct bytes policy;    /* the pinned policy of witnesses; empty: none */
    size_t signature_count; /* of DSSE envelopes with the statement */
    struct bytes signatures[KEYD_STATEMENT_SIGNATURES];
};
RESULT keyd_recover(struct keyd_client *client, const struct keyd_recovery *recovery, struct error *err);
/** Appends the newest checkpoint that keyd has signed, whatever the database has. */
RESULT keyd_last_checkpoint(struct keyd_client *client, struct buffer *note, struct error *err);

/**
 * Has the next key of the log follow the present one, by an order that the root of approvers has signed (keyd/log_rotation.h). ERROR_DENIED: not the
 * root has signed, or it names other keys. ERROR_CONFLICT: the last change is not over. The same order again is no error.
 */
RESULT keyd_log_rotate(struct keyd_client *client, struct bytes envelope, struct error *err);
struct keyd_log_keys {
    char next[256];    /* the key of the log that an order may name as the new one; "": none */
    int64_t retires_s; /* when the key before the newest one stops, or stopped, to sign; 0: there was none */
};
/** Appends the first key of the log and its handovers (audit/format/log_keys.h). */
RESULT keyd_log_keys(struct keyd_client *client, struct buffer *keys, struct keyd_log_keys *state_out, struct error *err);

/**
 * Reports that the log differs from the signed one. `finding` names the difference; it is truncated to KEYD_FINDING_MAX bytes.
 * keyd keeps the first finding in its ledger and signs no further checkpoint (ERROR_FORKED), until an operator says that
 * the log is restored (sijil-keyd --log-restored).
 */
RESULT keyd_log_forked(struct keyd_client *client, const char *finding, struct error *err);

/** HMAC under keyd's index key, to find a subject without storing its name. */
RESULT keyd_subject_index(struct keyd_client *client, const char *issuer, const char *subject, uint8_t index_out[32],
                          struct error *err);
/** A new subject key, and the same key wrapped for the database. */
RESULT keyd_subject_key_new(struct keyd_client *client, const uint8_t index[32], struct secret **key_out,
                            struct wrapped_key *wrapped_out, struct error *err);
RESULT keyd_subject_key_open(struct keyd_client *client, const uint8_t index[32], const struct wrapped_key *wrapped,
                             struct secret **key_out, struct error *err);

/** The same key, wrapped under the newest epoch. */
RESULT keyd_subject_rewrap(struct keyd_client *client, const uint8_t index[32], const struct wrapped_key *wrapped,
                           struct wrapped_key *wrapped_out, struct error *err);

/** What a certificate of erasure states; keyd adds the stage and the time (audit/format/erased.h). */
struct erasure_certificate_request {
    const char *pseudonym;
    uint64_t asked, done; /* numbers of the events, with the hashes of their leaves */
    uint8_t asked_hash[32], done_hash[32];
    uint64_t payloads;
    int64_t erased_ms;
    uint32_t key_version;
};
/** Appends the signed envelope. ERROR_INVALID for values that can't be. */
RESULT keyd_certify_erasure(struct keyd_client *client, const struct erasure_certificate_request *wanted, struct buffer *envelope,
                            struct error *err);

/** Pins the public key that signs policy sets; only once, at the first start. */
RESULT keyd_pin_approver(struct keyd_client *client, const uint8_t public_key[65], struct error *err);

#define DOCUMENT_KINDS_MAX      16 /* kinds of signed documents (documents/format/kinds.def) that keyd's ledger has room for */
#define DOCUMENT_APPROVERS_MAX  12 /* keys of approvers that it has room for */
#define DOCUMENT_SIGNATURES_MAX 4  /* of a document: its holder's, two approvers', and one more */
#define DOCUMENT_DIGEST_SIZE    32

/** What keyd has pinned of one kind. */
struct document_pin {
    uint64_t epoch; /* of the policy set; for other kinds the number of the newest document's event. 0: none yet */
    uint8_t digest[DOCUMENT_DIGEST_SIZE]; /* of the policy set; for other kinds the chain over all pinned documents */
};
/** A key that may approve, until it expires or is revoked. */
struct document_approver {
    uint8_t point[65];                       /* all zero: the slot is free */
    uint8_t principal[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of the key's owner: the owner of a document can't approve it */
    int64_t expires_ms;
    bool is_revoked; /* kept until it expires, so that its old enrolment document can't enrol it again */
};
struct keyd_documents {
    uint8_t root[65];                             /* the approver that was pinned first; all zero: none yet */
    struct document_pin pins[DOCUMENT_KINDS_MAX]; /* of the kind with the number i + 1 */
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX];
};
#define ROOT_PERSONS_MAX 8 /* signatures of a policy set: those of one DSSE envelope */
/**
 * How many persons must sign. All zero: the root's key alone, as long as no policy set has said otherwise ("root", docs/policies.md).
 * Else 1 <= officers, policies <= root <= ROOT_PERSONS_MAX.
 */
struct root_terms {
    uint8_t policies;                     /* that bring a policy set into force */
    uint8_t root;                         /* that change these numbers */
    uint8_t officers;                     /* that enrol an approver's key: the root's key, and others */
    uint8_t holder[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of the principal that has the root's key; zeros: it is no person's */
};
bool root_terms_are_valid(const struct root_terms *terms);
RESULT keyd_root_terms(struct keyd_client *client, struct root_terms *terms_out, struct error *err);

/** The keys that may approve, and the documents in force. */
RESULT keyd_ask_documents(struct keyd_client *client, struct keyd_documents *documents_out, struct error *err);

/** A signed document, and the proof that its event is in the log that keyd has signed. */
struct document_pin_request {
    size_t envelope_count;
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX]; /* DSSE, one for each signature */
    struct bytes leaf;                               /* of the event that brings it into force, byte for byte */
    uint64_t sequence;                               /* of that event */
    uint64_t size;                                   /* of the log at keyd's last checkpoint; the proof is for this size */
    size_t proof_count;
    uint8_t proof[KEYD_PROOF_MAX][32];
    struct bytes
        base; /* of keyd_pin_set(): the envelope of the set that is pinned now; empty: there is none. Of keyd_pin_restriction(): the points of keys */
};
/**
 * keyd counts the signatures and pins the document. ERROR_DENIED: too few valid signatures by keys that count, or an epoch
 * not larger than the pinned one (the same document again is no error). ERROR_NOT_FOUND: the leaf is not of an event that
 * names exactly these envelopes, or is not in the signed log. ERROR_CONFLICT: keyd's last checkpoint has another size; call
 * keyd_identify() and make a new proof.
 */
RESULT keyd_pin_document(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                         struct error *err);
#define DOCUMENT_LINK_SIZE 40   /* u64 number of the event, ENVELOPES[32] (docs/formats/documents.md, "Pin") */
#define DOCUMENT_LINKS_MAX 1000 /* documents of a kind that were pinned later, in one proof */
/** A document, and the proof that keyd has pinned it: the chain of its kind, from the pin before the document to the newest one. */
struct document_chain_request {
    size_t envelope_count;
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    uint64_t sequence;                    /* of its event */
    uint8_t before[DOCUMENT_DIGEST_SIZE]; /* digest of the pin before it; zeros: it was the first */
    struct bytes later; /* DOCUMENT_LINK_SIZE bytes for each document that was pinned after it, the oldest first */
};
/**
 * Appends a certificate for the runner of a document (crypto/runner_certificate.h), valid for RUNNER_CERTIFICATE_DAYS, and not longer than the
 * document. ERROR_DENIED: keyd has not pinned the document, or it is not in force. ERROR_CONFLICT: keyd has pinned a newer document than the
 * last of the chain; make the proof anew.
 */
RESULT keyd_certify_runner(struct keyd_client *client, const struct document_chain_request *proof, struct buffer *der,
                           struct error *err);
/**
 * As keyd_pin_document(), for a policy set, which is larger and has one envelope: keyd finds what the set changes of `base`. ERROR_DENIED: that is not the
 * set that keyd has pinned. Without a base keyd does not see what the set changes, so where several persons must sign it counts as a loosening.
 */
RESULT keyd_pin_set(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                    struct error *err);

#define KEYD_POINTS_MAX 16
/** As keyd_pin_document(), for a restriction of an organisation. `base` has the points of its officers' keys, at most KEYD_POINTS_MAX: keyd knows their thumbprints. */
RESULT keyd_pin_restriction(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                            struct error *err);

#define KEYD_POLICY_IDS_MAX 64 /* policies of one set */
/** The SHA-256 of the ids of the policies of a set with this digest. */
struct keyd_policy_ids {
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    size_t count;
    uint8_t each[KEYD_POLICY_IDS_MAX][DOCUMENT_DIGEST_SIZE];
};
/** *unused_out: a bit for each id that no set had which keyd has pinned. Of ids of sets before it kept them, keyd does not say so. */
RESULT keyd_ask_policy_ids(struct keyd_client *client, const struct keyd_policy_ids *ids, uint64_t *unused_out,
                           struct error *err);

#define KEYD_RUN_MAX               (10 * 1024 * 1024) /* bytes of a run's bundle in a message: 8 MiB, and a policy set of 2 MiB */
#define KEYD_RUN_ENVELOPE_MAX      131072
#define KEYD_RUN_JURISDICTIONS_MAX 16
/** A request to sign an envelope of a training run, with the values that the gateway adds. */
struct keyd_run {
    struct bytes bundle; /* docs/formats/run.md, "Bundle": up to the envelope below the wanted one */
    uint32_t lifetime_s; /* at most to the end of the request (for an order) or of the order (for a lease) */
    /* of an order */
    size_t jurisdiction_count;
    struct bytes jurisdictions[KEYD_RUN_JURISDICTIONS_MAX]; /* the jurisdictions that the policies allow, sorted */
    uint8_t approvals, attempts;
    bool signed_request;
    /* of a lease */
    struct bytes key; /* thumbprint of the runner's key */
    uint8_t attempt, node;
    /* of an admission: the policy set that was in force when it was asked for first; 0 and zeros: it was not asked for before */
    uint64_t earlier_epoch;
    uint8_t earlier_policies[32];
};
/**
 * Each appends the signed envelope. keyd checks every envelope below it. ERROR_DENIED with the rule that does not hold.
 * ERROR_CONFLICT: another order was signed for this request, another lease for this node of this attempt, or another result of
 * this order was admitted. If the same call is repeated, it returns the same statement, also after a crash.
 */
RESULT keyd_run_order(struct keyd_client *client, const struct keyd_run *wanted, struct buffer *envelope, struct error *err);
RESULT keyd_run_lease(struct keyd_client *client, const struct keyd_run *wanted, struct buffer *envelope, struct error *err);
RESULT keyd_run_admission(struct keyd_client *client, const struct keyd_run *wanted, struct buffer *envelope, struct error *err);
#define KEYD_SPEC_MAX \
    (44 * 1024) /* bytes of a specification in a message: with a token it fits into one, and so does the reply */
/** A request of a run for the subject of a token that keyd has signed. */
struct keyd_run_request {
    struct bytes token;            /* its text: a secret */
    struct bytes issuer, audience; /* `iss` and `aud` that it must have */
    struct bytes subject_issuer;   /* of a subject of an issuer, or of a trust rule: the issuer; empty for a robot */
    struct uuid run;
    struct bytes project, spec; /* `spec` is JSON */
    bool is_rerun;
    struct uuid rerun_run;   /* of the run that it repeats */
    uint8_t rerun_order[32]; /* digest of that run's order */
    uint32_t lifetime_s;     /* at most 30 days */
};
/**
 * Appends the signed request, with `claims` (docs/formats/run.md). keyd verifies the token, and signs one request for a run. ERROR_DENIED: the
 * token does not count, or the request has a bad value; ERROR_INVALID for a bad form. ERROR_CONFLICT: another request was signed for this run.
 * The same call again returns the same request.
 */
RESULT keyd_run_request(struct keyd_client *client, const struct keyd_run_request *wanted, struct buffer *envelope,
                        struct error *err);
#define KEYD_TOKEN_KEYS_MAX 3
/** The public keys whose tokens are valid now, or will be: uncompressed points. The first one signs now. */
struct keyd_token_keys {
    size_t count; /* at least 1 */
    uint8_t each[KEYD_TOKEN_KEYS_MAX][65];
};
RESULT keyd_token_keys(struct keyd_client *client, struct keyd_token_keys *keys_out, struct error *err);

#define KEYD_NONCE_SIZE     16
#define KEYD_NONCE_PERIOD_S 300
#define KEYD_NONCES_COUNT   5
/** What proofs of keys must repeat (RFC 9449, 8), one for each period of KEYD_NONCE_PERIOD_S since 1970: nobody knows those of later periods. */
struct keyd_nonces {
    uint64_t first; /* number of the period before the present one; its nonce is each[0] */
    uint8_t each[KEYD_NONCES_COUNT][KEYD_NONCE_SIZE];
};
RESULT keyd_nonces(struct keyd_client *client, struct keyd_nonces *nonces_out, struct error *err);

/** The run of the request with this digest has ended: what keyd reserves for it becomes free. Unknown ones change nothing. */
RESULT keyd_run_end(struct keyd_client *client, const uint8_t digest[32], struct error *err);

void keyd_client_free(struct keyd_client *client);
DEFINE_OWNED(keyd_client);
