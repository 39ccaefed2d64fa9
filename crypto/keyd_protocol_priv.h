/*
 * crypto/keyd_protocol_priv.h -- fields that several messages have in common.
 */
#pragma once

#include "crypto/keyd_protocol.h"

/** Appends the header; keyd_frame_end() sets the length. */
RESULT keyd_frame_begin(struct buffer *frame, enum keyd_type type, uint64_t id, struct error *err);
RESULT keyd_frame_end(struct buffer *frame, struct error *err);
/** Checks length and version; the reader starts after the header. */
RESULT keyd_frame_open(struct bytes message, uint8_t *type_out, uint64_t *id_out, struct reader *fields_out, struct error *err);

RESULT keyd_write_wrapped(struct buffer *frame, const struct wrapped_key *wrapped, struct error *err);
/** A reader marks `fields` as failed for a bad value. */
void keyd_read_wrapped(struct reader *fields, struct wrapped_key *wrapped);
/** The fields of each message about a run. */
RESULT keyd_write_run(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_run(struct reader *fields, struct keyd_request *request);
struct result keyd_write_run_request(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_run_request(struct reader *fields, struct keyd_request *request);
struct result keyd_write_pin_witnesses(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_pin_witnesses(struct reader *fields, struct keyd_request *request);
struct result keyd_write_cosigned(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_cosigned(struct reader *fields, struct keyd_request *request);
struct result keyd_write_witnesses(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_witnesses(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_recover(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_recover(struct reader *fields, struct keyd_request *request);
/** The fields of a request for a certificate of erasure. */
struct result keyd_write_erasure(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_erasure(struct reader *fields, struct keyd_request *request);
struct result keyd_write_log_rotate(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_log_rotate(struct reader *fields, struct keyd_request *request);
/** The fields of a reply about the keys of the log. */
struct result keyd_write_known_log_keys(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_known_log_keys(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_token_keys(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_token_keys(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_root_terms(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_root_terms(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_nonces(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_nonces(struct reader *fields, struct keyd_reply *reply);
/** Of a replaced key, and of the keys that wait. */
struct result keyd_write_key_power_asked(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_key_power_asked(struct reader *fields, struct keyd_request *request);
struct result keyd_write_replaced(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_replaced(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_key_power(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_key_power(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_token(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_token(struct reader *fields, struct keyd_request *request);
struct result keyd_write_bound_token(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_bound_token(struct reader *fields, struct keyd_request *request);
/** The event that brings a document into force, and its proof: the fields after the envelopes. */
struct result keyd_write_event(struct buffer *frame, const struct document_pin_request *pin, struct error *err);
void keyd_read_event(struct reader *fields, struct document_pin_request *pin);
struct result keyd_write_pin_policy(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_pin_policy(struct reader *fields, struct keyd_request *request);
struct result keyd_write_pin_set(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_pin_set(struct reader *fields, struct keyd_request *request);
struct result keyd_write_policy_ids(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_policy_ids(struct reader *fields, struct keyd_request *request);
struct result keyd_write_shown(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_shown(struct reader *fields, struct keyd_request *request);
struct result keyd_write_unused_ids(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_unused_ids(struct reader *fields, struct keyd_reply *reply);
/** Of the sijil-keyd of a region. */
struct result keyd_write_place_asked(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_place_asked(struct reader *fields, struct keyd_request *request);
struct result keyd_write_place(struct buffer *frame, const struct keyd_reply *reply, struct error *err);
void keyd_read_place(struct reader *fields, struct keyd_reply *reply);
struct result keyd_write_current_handed(struct buffer *frame, const struct keyd_request *request, struct error *err);
void keyd_read_current_handed(struct reader *fields, struct keyd_request *request);
/** A text of `minimum` to KEYD_NAME_MAX bytes; `what` is for the message. */
struct result keyd_write_name(struct buffer *frame, struct bytes name, size_t minimum, const char *what, struct error *err);
/** At least one byte. */
struct bytes keyd_read_name(struct reader *fields);
/** Exactly `length` bytes into `out`. */
void keyd_read_fixed(struct reader *fields, uint8_t *out, size_t length);
bool keyd_read_flag(struct reader *fields);
/** Reads 1 to `maximum` bytes without NUL and appends a NUL: `out` has room for maximum + 1. */
void keyd_read_text(struct reader *fields, char *out, size_t maximum);
