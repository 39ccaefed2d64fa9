/*
 * client/commands/run_priv.h -- what the commands of training runs have in common.
 */
#pragma once

#include <stdio.h>

#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "crypto/ecdsa.h"
#include "training/format/compose.h"

#define RUN_PATH_MAX 1024 /* of a call: a project, two UUIDs, and words of the API */

/** A run, as the command line or an answer names it. */
struct run_address {
    const char *host, *project, *run;
};
/** The operand PROJECT: a failure says what one is, and how to find it. */
RESULT run_project_check(struct invocation *invocation, struct error *err);
/** Of the operands HOST PROJECT RUN. ERROR_INVALID if RUN is not the id of a run. */
RESULT run_address_of(struct invocation *invocation, struct run_address *address_out, struct error *err);
/** Appends "/projects/PROJECT/runs/RUN" and `rest`. */
RESULT run_path(const struct run_address *address, const char *rest, struct buffer *path, struct error *err);
/** The registry's description of the run. */
RESULT run_read(struct session *session, const struct run_address *address, json_t **run_out, struct error *err);

/* --- signing --- */

/** The members that requests and approvals have in common. */
struct run_head {
    char audience[256];
    char principal[SIGNING_PRINCIPAL_SIZE];
    int64_t issued_ms, expires_ms;
    char nonce[33];
};
RESULT run_head_make(struct session *session, int64_t hours, struct run_head *head_out, struct error *err);
/** The value of --expires. */
RESULT run_life_option(struct invocation *invocation, int64_t *hours_out, struct error *err);
RESULT run_seal(const struct ecdsa_key *key, enum run_type type, struct bytes payload, json_t **envelope_out, struct error *err);

/** Reads an envelope of the answer `run`: its first one of this kind. *envelope_out is NULL if there is none. Signatures are not checked. */
RESULT run_signed(const json_t *run, enum run_type type, struct run_envelope **envelope_out, struct error *err);
/** The request of the run at `address`, from its signed bytes: the registry's description of it is not trusted. */
RESULT run_signed_request(const json_t *run, const struct run_address *address, struct run_envelope **request_out,
                          struct error *err);
/** Shows the digest of a request, who signed it, and its specification: exactly, with no character that steers a terminal. */
RESULT run_show_request(const struct run_envelope *request, FILE *stream, struct error *err);

/** Shows whose the principals of a run are, as the registry says; a name whose hash is another one is not shown. `people` may be NULL. */
void run_show_people(const json_t *people, FILE *stream);

/** What a request asks for; `rerun`: the order that it repeats, or NULL. */
struct run_wish {
    const char *project;
    const json_t *spec;
    const struct run_envelope *rerun;
};
/** The key that signs a request; NULL: with --by-token, or without a key if the login is a token of the registry, the login's token asks. */
RESULT run_signer(struct invocation *invocation, const char *host, struct ecdsa_key **key_out, struct error *err);
/** Signs the request and sends it; `key` NULL: asks by the token of the login. *answer_out: the registry's description of the new run, with its id. */
RESULT run_ask(struct session *session, const struct run_wish *wish, int64_t hours, const struct ecdsa_key *key,
               json_t **answer_out, struct error *err);

/**
 * With --resume RUN: the specification continues from the newest checkpoint that RUN has. ERROR_INVALID: RUN has none, or the specification names one
 * itself.
 */
RESULT run_resume_option(struct invocation *invocation, struct session *session, json_t *spec, struct error *err);

/** An option that is a number. */
struct run_number {
    int letter;
    const char *name;
    uint64_t least, most;
};
/** *number_out stays as it is without the option. */
RESULT run_number_option(struct invocation *invocation, const struct run_number *option, uint64_t *number_out, struct error *err);

/**
 * Adds the manifests of the run's artifacts to its bundle, as far as this person may pull them: the labels that they state count for a verifier. The
 * bundle is not checked; without such a manifest, or if it is none, its bytes stay as they are. ERROR_UNAVAILABLE, ERROR_NO_MEMORY.
 */
RESULT run_manifests_add(struct session *session, const struct run_address *address, struct buffer *bundle, struct error *err);

/* --- showing --- */

/** The run's state and what it waits for, in one line for a person. */
#define RUN_LINE_MAX 256
void run_line(const json_t *run, int64_t now_ms, char line_out[RUN_LINE_MAX]);
/** Prints a run: as JSON with all that was signed, or in lines with its outputs and what to do next. */
RESULT run_print(const struct invocation *invocation, const struct run_address *address, const json_t *run, struct error *err);
/** Of a run that no runner has taken: what one must give, and how many asked that lack what; `runners` is the registry's word, or NULL. */
void run_show_needs(const struct run_envelope *request, const json_t *run, const json_t *runners, const char *host);
#define RUN_WAIT_MAX 64
/** ": 1 is busy", ": none asks for work", or "" while a runner that asked fits. */
void run_wait_text(const json_t *run, char text_out[RUN_WAIT_MAX]);
/** Appends the command that helps next, or nothing. */
RESULT run_advice(const struct run_address *address, const json_t *run, struct buffer *advice, struct error *err);
/** The outputs in the run's signed result: objects `name`, `repository`, `digest`, `reference`, sorted by name. Empty without a result. */
RESULT run_signed_outputs(const json_t *run, const struct run_address *address, json_t **outputs_out, struct error *err);
/** Whether the registry says that the run is in this state. */
bool run_is_in(const json_t *run, const char *state);
/** Appends the command that pulls the log as the run's signed result names it; nothing without a result. */
RESULT run_log_reference(const json_t *run, const struct run_address *address, struct buffer *command, struct error *err);

/* --- waiting --- */

bool run_has_ended(const json_t *run);
/** Looks at the run until it has ended, and shows where it is on standard error. Goes on after lost connections. */
RESULT run_watch(struct invocation *invocation, struct session *session, const struct run_address *address, json_t **run_out,
                 struct error *err);
/** SUCCESS if the run has succeeded. Otherwise a failure with the reason; the program ends with EXIT_RUN. */
RESULT run_verdict(struct invocation *invocation, const struct run_address *address, const json_t *run, struct error *err);
/** run_watch(), run_print() and run_verdict(). */
RESULT run_wait(struct invocation *invocation, struct session *session, const struct run_address *address, struct error *err);

/** Whether it is the result of that attempt and node; NULL is none. */
bool run_result_is_of(const struct run_envelope *result, uint64_t attempt, uint64_t node);
/** The signed result of that attempt and node. ERROR_NOT_FOUND: the registry shows none; the message says why. */
RESULT run_saved_result(const json_t *run, uint64_t attempt, uint64_t node, struct run_envelope **result_out, struct error *err);
/**
 * Whether the open file is the log that the signed `result` names, by SHA-256: the registry gives the log's manifest, whose digest the runner has
 * signed. ERROR_CORRUPT: the log, or the manifest, is another one. ERROR_NOT_FOUND: the registry does not have the manifest.
 */
RESULT run_saved_check(struct session *session, const struct run_address *address, const struct run_envelope *result, int fd,
                       struct error *err);
/** ERROR_INVALID: a log may not be saved as `path`, which is a folder, a link or a device. */
RESULT run_saved_allowed(const char *path, struct error *err);
/** Copies the whole file to standard output. */
RESULT run_saved_copy(int fd, struct error *err);
/** Makes the file `part`, which must not be there. A signal that ends the program removes it. `part` must outlive run_saved_end(). */
RESULT run_saved_begin(const char *part, FILE **out, struct error *err);
/** If all was `saved`, it gets the name `path`; else it is removed, and the result is the same. The caller has closed it. */
RESULT run_saved_end(const char *part, const char *path, struct result saved, struct error *err);

/** Shows the run's log on standard output until the run has ended; until there is an attempt, shows the run's state on standard error. */
RESULT run_follow_log(struct invocation *invocation, struct session *session, const struct run_address *address,
                      struct error *err);

/** The address of the new run in an answer of run_ask(). The answer must outlive the address. */
struct run_address run_new_address(const struct invocation *invocation, const json_t *run);
/** Shows a run that was just asked for; --wait and --follow wait for its end. */
RESULT run_started(struct invocation *invocation, struct session *session, json_t *run, struct error *err);
/** Refuses --follow with --json. */
RESULT run_check_line(struct invocation *invocation, struct error *err);

/** After a failed call: pauses, and returns whether to try again. Pauses grow with *tries, which it counts; set it to 0 after each success. */
bool run_tries_again(struct session *session, unsigned *tries, const struct error *err);
