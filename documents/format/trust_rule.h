/*
 * documents/format/trust_rule.h -- trust rules: which tokens of a CI system get which roles (docs/ci.md).
 *
 * A document of the kind trust-rule. The name is the rule's id. Each version replaces the one before; a withdrawal is a higher version with an
 * empty body. Two approvers of different principals sign a rule, or the root; one of them signs a withdrawal.
 *
 * trust_rule_read() refuses a rule that would trust a token by names that others can get: it needs an immutable id, and a ref or a pinned
 * workflow. So sijil-keyd pins no such rule.
 */
#pragma once

#include "documents/format/claim_match.h"
#include "documents/format/document.h"

#define TRUST_RULE_NAME_MAX  63 /* with its scope it is the subject of a principal */
#define TRUST_RULE_DAYS_MAX  366
#define TRUST_RULE_APPROVERS 2 /* persons that sign it, if the root does not */
#define TRUST_CONDITIONS_MAX 16
#define TRUST_GRANTS_MAX     8
#define TRUST_NETWORKS_MAX   8
#define TRUST_IMMUTABLE_MAX  4
#define TRUST_PRIORITY_MAX   1000
#define TRUST_TTL_MIN_S      60
#define TRUST_TTL_MAX_S      900 /* sijil-keyd signs no longer token */
#define TRUST_RULE_BYTES_MAX ((size_t)16 * 1024)

/** The systems whose claims are known. */
#define TRUST_SYSTEMS(X)              \
    X(TRUST_GITHUB, "github")         \
    X(TRUST_GITLAB, "gitlab")         \
    X(TRUST_KUBERNETES, "kubernetes") \
    X(TRUST_JENKINS, "jenkins")       \
    X(TRUST_GENERIC, "generic")
enum trust_system {
#define X(constant, name) constant,
    TRUST_SYSTEMS(X)
#undef X
        TRUST_SYSTEM_COUNT
};
bool trust_system_find(const char *name, enum trust_system *system_out);
const char *trust_system_name(enum trust_system system);

/** Only roles on content: a rule never makes an officer, an approver or an administrator. */
struct trust_grant {
    const char *role; /* publisher, promoter, consumer or trainer */
    const char
        *on; /* "acme", "acme/models", a repository, or all below "acme/models/" and an asterisk; inside the document's scope */
};

/** Views into the document, which must stay. */
struct trust_rule {
    const char *issuer, *audience; /* `iss` and the only `aud` */
    enum trust_system system;
    size_t condition_count, grant_count, immutable_count;
    struct claim_condition conditions[TRUST_CONDITIONS_MAX]; /* all must match */
    struct trust_grant grants[TRUST_GRANTS_MAX];
    const char *immutable[TRUST_IMMUTABLE_MAX]; /* of jenkins and generic: pointers of the claims that nobody else ever gets */
    const json_t *networks;                     /* the client is in one of these blocks of addresses; NULL: anywhere */
    const char *certificate;                    /* x5t#S256 of the client's certificate; NULL: any, or none */
    int64_t priority;                           /* of several rules that match, the highest counts, alone */
    unsigned ttl_max_s;                         /* of the tokens that are made */
    bool single_use;                            /* a token of the issuer makes one token of ours */
};

/** Reads the body of a document of this kind that is no withdrawal, with all rules of the linter. ERROR_INVALID names what is missing, and
 *  why it is needed. */
RESULT trust_rule_read(const struct document *document, struct trust_rule *rule_out, struct error *err);
/** The linter: an immutable id, and a ref or a pinned workflow. ERROR_INVALID. */
RESULT trust_rule_lint(const struct trust_rule *rule, struct error *err);

/** Whether issuer, audience and all conditions match. `claims` is the payload of a token whose signature the caller has verified. */
bool trust_rule_matches(const struct trust_rule *rule, const json_t *claims);
/** Whether one token can match both: the same issuer and audience, and no claim of which they want different values. */
bool trust_rules_meet(const struct trust_rule *one, const struct trust_rule *other);
struct sockaddr;
/** Whether the rule permits clients with this address (NULL: not known) and this certificate (NULL: none). */
bool trust_rule_permits_client(const struct trust_rule *rule, const struct sockaddr *client, const char *thumbprint);
