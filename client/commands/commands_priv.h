/*
 * client/commands/commands_priv.h -- the functions behind the table of commands.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "client/session.h"
#include "crypto/ecdsa.h"
#include "documents/format/signing_key.h"

/** The report of the invocation's sessions, in the form that its options ask for. */
struct report *invocation_report(struct invocation *invocation);
/** A session with the stored login of the host. It logs in with its first call. */
RESULT command_session(struct invocation *invocation, const char *host, struct session **session_out, struct error *err);
/** The user's cache folder, which keeps notes on unfinished uploads for the next run; NULL if there is none, which is no failure. */
const char *notes_folder(struct invocation *invocation);

/* The commands, each declared by its row. */
#define COMMAND(name, operands, least, most, summary, detail, options, run) \
    RESULT run(struct invocation *invocation, struct error *err);
#include "client/commands/commands.def"
#undef COMMAND

/** The key of --key or of --pkcs11, one of which must be given. It signs. */
RESULT command_signer(struct invocation *invocation, struct ecdsa_key **key_out, struct error *err);
#define SIGN_WITH 'Y' /* the option --sign-with */
/** The same for the option with this letter: a file, or a URI that begins with "pkcs11:". NULL without the option. */
RESULT command_other_signer(struct invocation *invocation, int letter, struct ecdsa_key **key_out, struct error *err);

struct host_login;
/** The whole path of a file with PEM certificates. ERROR_NOT_FOUND, ERROR_INVALID: a folder, no certificate, or too long for `room`. */
RESULT login_find_ca_file(const char *path, char *place, size_t room, struct error *err);
/** For commands that log in: whether the operand is HOST[:PORT]; and the file of --ca-file, if it is given. */
RESULT login_check_host(const char *host, struct error *err);
RESULT login_ca_file(const struct invocation *invocation, struct host_login *login, struct error *err);
/** Sets login->issuer from the options, and from what is stored in it; its url stays "" if there is no --issuer and nothing stored. */
RESULT login_issuer_options(const struct invocation *invocation, struct host_login *login, struct error *err);
/** The person logs in at login->issuer, by a code for a device or with a browser: sets user name and password. */
RESULT login_at_issuer(struct invocation *invocation, struct host_login *login, struct error *err);
/**
 * Whether a person is there who could log in again: at a terminal, or $BROWSER names a program that opens pages. Not with --json.
 */
bool login_can_ask(const struct invocation *invocation);
/** The person of the stored login logs in again, with a browser (RFC 9470); the new login is stored. ERROR_INVALID: it was another person. */
RESULT login_again(struct invocation *invocation, const char *host, const char *acr_values, struct error *err);
/** Revokes the login at its issuer (RFC 7009). */
RESULT login_revoke(const struct invocation *invocation, const struct host_login *login, struct error *err);
/** The same for a login that is not kept; silent, because the caller has a failure already. */
void login_withdraw(const struct invocation *invocation, const struct host_login *login);

/** The principal of this login, in the form of documents (docs/formats/documents.md); also from an answer of /api/v1/self. */
RESULT command_principal(struct session *session, char principal_out[SIGNING_PRINCIPAL_SIZE], struct error *err);
RESULT self_principal(const json_t *self, char principal_out[SIGNING_PRINCIPAL_SIZE], struct error *err);

/** {"issuer", "subject"} of a key in an answer, if this is the holder that the document names as `principal`. Otherwise NULL,
 *  also if `principal` is NULL. */
const json_t *verified_holder(const json_t *key, const char *principal);

/** Warns if no trusted issuer has this URL. Silent if the caller may not list the issuers. */
void issuer_warn(struct session *session, const char *url);
/** Begins a job and, without --detach, follows it to its end. `project`: the project whose job it is, or NULL. */
RESULT job_begin(struct invocation *invocation, const char *path, const char *project, const json_t *body, struct error *err);
/** Waits between two looks at something that goes on at the registry: 0.1 s after the first look (0), and longer, up to 5 s, because each look
 *  is an event in the log. */
void look_rest(unsigned looks);
