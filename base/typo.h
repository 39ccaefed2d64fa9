/*
 * base/typo.h -- whether a word is another one with a typing error, for "did you mean ...?".
 */
#pragma once

#include <stdbool.h>

#define TYPO_LETTERS 64 /* longer words are near to nothing */
#define TYPO_BEST    4  /* the first value of *best: of three wrong letters a suggestion is made, of four none */

/**
 * Whether `given` is nearer to `name` than *best letters to insert, delete, replace or swap with a neighbour, and no more than a third of the
 * letters of `name` are wrong. Then *best is this number.
 */
bool typo_is_near(const char *given, const char *name, unsigned *best);
/** The nearest of the names; NULL if none is near. */
const char *typo_nearest(const char *given, const char *const *names, unsigned count);
