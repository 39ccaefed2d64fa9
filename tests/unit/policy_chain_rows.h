/*
 * tests/unit/policy_chain_rows.h -- the table of policy_chain_cases.c: sets and keys in their order, and how many persons have signed the last one.
 */
#pragma once

#include "base/result.h"

enum { ROOT, ONE, TWO, TWO_AGAIN, THREE, KEYS };
#define BY(key) (1U << (key))

/* The person of each key; the root's key is of the person 0. */
static const int persons[KEYS] = {0, 1, 2, 2, 3};

#define POLICY(id, version, members, rules)                                                                                      \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"" id "\",\"version\":" version      \
    ",\"scope\":[\"**\"],\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2027-01-01\"}" members ",\"rules\":[" rules \
    "]}"
#define PERMIT(most) \
    "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"],\"when\":{\"class_at_most\":\"" most "\"}}"
#define AE            "{\"id\":\"R-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\"]}}"
#define BASE          POLICY("one", "1", "", PERMIT("confidential"))
#define TYPE          ",\"exception_types\":{\"t\":{\"lifts\":[\"R-1\"],\"required_evidence\":[],\"max_days\":90,\"approvals\":2}}"
#define TYPED         "[" POLICY("one", "1", TYPE, AE "," PERMIT("confidential")) "]"
#define TYPED_AND     "[" POLICY("one", "1", TYPE, AE "," PERMIT("confidential")) "," POLICY("two", "1", ",\"closed\":false", AE) "]"
#define STRICTER      "[" POLICY("one", "2", "", PERMIT("open")) "]"
#define LOOSER        "[" POLICY("one", "3", "", PERMIT("sensitive")) "]"
#define PLAIN         "[" BASE "]"
#define ADDED         "[" BASE "," POLICY("two", "1", ",\"closed\":false", AE) "]"
#define RAISED        "{\"holder\":\"%s\",\"officers\":1,\"policies\":2,\"root\":3}"
#define LOWERED       "{\"officers\":1,\"policies\":1,\"root\":1}"
#define ALONE         BY(ROOT)
#define THREE_PERSONS (BY(ROOT) | BY(ONE) | BY(TWO))

/* Asked by the root's person or another one, approved by two; make_set() binds it to TYPED. */
#define LEAVE(id, by, first, second)                                                                     \
    "[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"" id                  \
    "\",\"type\":\"t\",\"policy\":{\"id\":\"one\",\"version\":1,\"digest\":\"" ZEROS                     \
    "\"},\"project\":\"10000000-0000-4000-8000-000000000001\",\"lifts\":[\"R-1\"],\"ops\":[\"ingest\"]," \
    "\"targets\":[\"azure/one\"],\"digests\":[\"" ZEROS "\"],\"not_before\":\"2026-12-01T00:00:00Z\","   \
    "\"not_after\":\"2027-01-01T00:00:00Z\",\"evidence\":{\"file\":\"" ZEROS                             \
    "\"},\"requested_by\":" PERSON(by) ",\"approvals\":[" PERSON(first) "," PERSON(second) "]}]"
#define ZEROS        "sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define PERSON(name) "{\"iss\":\"i\",\"sub\":\"" name "\"}"
#define BY_1_AND_2   LEAVE("x1", "guest", "1", "2")
#define BOTH         (BY(ONE) | BY(TWO))

enum what { NOTHING, ENROL, WITHDRAW, SET, BARE };
struct step {
    enum what what;
    int key;              /* of ENROL and WITHDRAW */
    const char *policies; /* of SET, and of BARE, which says nothing of approval */
    unsigned signers;
    const char *root;       /* a member "root"; NULL: none */
    int days;               /* that have gone since the step before */
    bool is_left_out;       /* it is made, and not shown */
    bool is_refused;        /* it is shown, and nothing follows from it */
    const char *exceptions; /* NULL: none */
};
#define KEYS_ENROLLED                                                    \
    {ENROL, .key = ONE}, {ENROL, .key = TWO}, {ENROL, .key = TWO_AGAIN}, \
    {                                                                    \
        ENROL, .key = THREE                                              \
    }
#define FIRST                                     \
    {                                             \
        BARE, .policies = PLAIN, .signers = ALONE \
    }
#define RAISE                                                            \
    {                                                                    \
        SET, .policies = PLAIN, .signers = THREE_PERSONS, .root = RAISED \
    }

static const struct row {
    const char *name;
    struct step steps[12];
    enum error_kind kind; /* of the last step */
    unsigned persons, needed;
    bool is_part; /* the chain does not begin with the first set */
} rows[] = {
    {"the root alone", {FIRST}, ERROR_NONE, 1, 1, false},
    {"another root", {{BARE, .policies = PLAIN, .signers = BY(ONE)}}, ERROR_DENIED, 0, 0, false},
    {"raised by three", {KEYS_ENROLLED, FIRST, RAISE}, ERROR_NONE, 3, 3, false},
    {"raised by two",
     {KEYS_ENROLLED, FIRST, {SET, .policies = PLAIN, .signers = BY(ROOT) | BY(ONE), .root = RAISED}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"raised by keys that are not enrolled", {{ENROL, .key = ONE}, FIRST, RAISE}, ERROR_DENIED, 0, 0, false},
    {"two without the root",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = STRICTER, .signers = BY(ONE) | BY(THREE)}},
     ERROR_NONE,
     2,
     2,
     false},
    {"two keys of one person",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = STRICTER, .signers = BY(TWO) | BY(TWO_AGAIN)}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"the root alone, afterwards",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = STRICTER, .signers = ALONE}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"the root alone, without a draft",
     {KEYS_ENROLLED, FIRST, RAISE, {BARE, .policies = STRICTER, .signers = ALONE}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"a loosening by two",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = LOOSER, .signers = BY(ONE) | BY(TWO)}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"a loosening by three",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = LOOSER, .signers = BY(ONE) | BY(TWO) | BY(THREE)}},
     ERROR_NONE,
     3,
     3,
     false},
    {"what restricts by one",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = ADDED, .signers = BY(ONE)}},
     ERROR_NONE,
     1,
     1,
     false},
    {"what restricts again, under the id that was there",
     {KEYS_ENROLLED,
      FIRST,
      RAISE,
      {SET, .policies = ADDED, .signers = BY(ONE)},
      {SET, .policies = PLAIN, .signers = BY(ONE) | BY(TWO) | BY(THREE)},
      {SET, .policies = ADDED, .signers = BY(ONE)}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"and the set that had it is not shown",
     {KEYS_ENROLLED,
      FIRST,
      RAISE,
      {SET, .policies = ADDED, .signers = BY(ONE), .is_left_out = true},
      {SET, .policies = PLAIN, .signers = BY(ONE) | BY(TWO) | BY(THREE)}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"a chain that begins later",
     {KEYS_ENROLLED,
      {BARE, .policies = PLAIN, .signers = ALONE, .is_left_out = true},
      RAISE,
      {SET, .policies = STRICTER, .signers = BY(ONE) | BY(TWO)}},
     ERROR_NONE,
     2,
     2,
     true},
    {"there, ids of sets that are not shown count as new",
     {KEYS_ENROLLED,
      {BARE, .policies = PLAIN, .signers = ALONE, .is_left_out = true},
      RAISE,
      {SET, .policies = ADDED, .signers = BY(ONE)}},
     ERROR_NONE,
     1,
     1,
     true},
    {"a key that was withdrawn",
     {KEYS_ENROLLED, FIRST, RAISE, {WITHDRAW, .key = ONE}, {SET, .policies = STRICTER, .signers = BY(ONE) | BY(TWO)}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"before it was withdrawn",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = STRICTER, .signers = BY(ONE) | BY(TWO)}, {WITHDRAW, .key = ONE}},
     ERROR_NONE,
     2,
     2,
     false},
    {"a key that has expired",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = STRICTER, .signers = BY(ONE) | BY(TWO), .days = 400}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"lowered by two",
     {KEYS_ENROLLED, FIRST, RAISE, {SET, .policies = STRICTER, .signers = BY(ONE) | BY(TWO), .root = LOWERED}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"lowered by three, and the root alone again",
     {KEYS_ENROLLED,
      FIRST,
      RAISE,
      {SET, .policies = STRICTER, .signers = BY(ONE) | BY(TWO) | BY(THREE), .root = LOWERED},
      {BARE, .policies = LOOSER, .signers = ALONE}},
     ERROR_NONE,
     1,
     1,
     false},
    {"an exception by the root and those whom it names",
     {KEYS_ENROLLED, FIRST, {BARE, .policies = TYPED, .signers = ALONE | BOTH, .exceptions = BY_1_AND_2}},
     ERROR_NONE,
     3,
     1,
     false},
    {"by the root alone",
     {KEYS_ENROLLED, FIRST, {BARE, .policies = TYPED, .signers = ALONE, .exceptions = BY_1_AND_2}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"by one of them",
     {KEYS_ENROLLED, FIRST, {SET, .policies = TYPED, .signers = ALONE | BY(ONE), .exceptions = BY_1_AND_2}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"before their keys were enrolled",
     {FIRST, {BARE, .policies = TYPED, .signers = ALONE | BOTH, .exceptions = BY_1_AND_2}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"carried on by the root alone",
     {KEYS_ENROLLED,
      FIRST,
      {SET, .policies = TYPED, .signers = ALONE | BOTH, .exceptions = BY_1_AND_2},
      {BARE, .policies = TYPED_AND, .signers = ALONE, .exceptions = BY_1_AND_2}},
     ERROR_NONE,
     1,
     1,
     false},
    {"out of force, and back by the root alone",
     {KEYS_ENROLLED,
      FIRST,
      {SET, .policies = TYPED, .signers = ALONE | BOTH, .exceptions = BY_1_AND_2},
      {BARE, .policies = TYPED, .signers = ALONE},
      {BARE, .policies = TYPED, .signers = ALONE, .exceptions = BY_1_AND_2}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"an exception of several persons",
     {KEYS_ENROLLED,
      FIRST,
      {SET, .policies = TYPED, .signers = THREE_PERSONS, .root = RAISED},
      {SET, .policies = TYPED, .signers = BOTH | BY(THREE), .exceptions = BY_1_AND_2}},
     ERROR_NONE,
     3,
     3,
     false},
    {"the person that asks is the third",
     {KEYS_ENROLLED,
      FIRST,
      {SET, .policies = TYPED, .signers = THREE_PERSONS, .root = RAISED},
      {SET, .policies = TYPED, .signers = BOTH | BY(THREE), .exceptions = LEAVE("x1", "3", "1", "2")}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"several persons without one whom it names",
     {KEYS_ENROLLED,
      FIRST,
      {SET, .policies = TYPED, .signers = THREE_PERSONS, .root = RAISED},
      {SET, .policies = TYPED, .signers = ALONE | BY(ONE) | BY(THREE), .exceptions = BY_1_AND_2}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"after a set that was refused",
     {KEYS_ENROLLED,
      FIRST,
      {BARE, .policies = TYPED, .signers = ALONE, .exceptions = BY_1_AND_2, .is_refused = true},
      {SET, .policies = TYPED, .signers = ALONE}},
     ERROR_NONE,
     1,
     1,
     false},
    {"what was refused brings no exception in",
     {KEYS_ENROLLED,
      FIRST,
      {BARE, .policies = TYPED, .signers = ALONE, .exceptions = BY_1_AND_2, .is_refused = true},
      {SET, .policies = TYPED, .signers = ALONE, .exceptions = BY_1_AND_2}},
     ERROR_DENIED,
     0,
     0,
     false},
    {"nor other numbers of persons",
     {KEYS_ENROLLED,
      FIRST,
      RAISE,
      {SET, .policies = PLAIN, .signers = ALONE, .root = LOWERED, .is_refused = true},
      {BARE, .policies = LOOSER, .signers = ALONE}},
     ERROR_DENIED,
     0,
     0,
     false},
};
