/*
 * policy/places.h -- whether the places and regimes that a policy set names exist, and what is a part of what: ISO 3166 (policy/places.def), policy/regimes.def.
 *
 * A misspelt place in a `require` denies everything, and in a `deny` it denies nothing. So a new set that names one is neither signed nor
 * loaded. A set that is in force stays so, whatever it names (docs/decisions/0135).
 */
#pragma once

#include "policy/set.h"

/** "AE", or "AE/DU": a country, or one of its parts. */
bool place_is_known(const char *geo);
/** Whether a place is the other one, or a part of it: "AE" and "AE/DU" are within "AE", and "AEX" is not. */
bool place_is_within(const char *place, const char *whole);
/** A row of policy/regimes.def, or a name that begins with "X-". */
bool regime_is_known(const char *regime);

/** A word of a set that is not known. Texts live as long as the set's JSON. */
struct unknown_word {
    const char *word, *member; /* "AE/XX", "geo_within" */
    const char *part, *owner;  /* "policies", "health-ae"; owner "" if it has no name */
    bool is_regime;
};
typedef RESULT unknown_word_found(void *context, const struct unknown_word *word, struct error *err);
/** Calls `found` for each unknown place and regime of a set's document. Ends with its first failure. */
RESULT places_search(const json_t *set, unknown_word_found *found, void *context, struct error *err);

/** ERROR_INVALID names the first one, where it stands, and what to do. Of a document that the shapes have checked. */
RESULT places_check_document(const json_t *set, struct error *err);
RESULT places_check(const struct policy_set *set, struct error *err);
