/*
 * audit/format/row_told.h -- the words by which events tell what rows of roles and robots say, beside what the events had before (docs/formats/audit-dump.md).
 *
 * The verifier of a gateway compares rows with them. Events of an earlier version have none.
 */
#pragma once

enum { ROW_TOLD_DIGITS = 32 };         /* of a digest, in hexadecimal */
#define BINDING_TOLD_SUBJECT "as="     /* a digest of issuer and subject, over the salt of the row */
#define ROW_TOLD_LIFETIME    "for="    /* seconds from the event on; 0: without end */
#define ROBOT_TOLD_SECRET    "secret=" /* a digest of the secret's hash */

/** In the note of an event about a repeat of a request (docs/api.md): whatever its action is, nothing was done, and it tells of no row. */
#define EVENT_OF_REPEAT "a repeat: nothing"
