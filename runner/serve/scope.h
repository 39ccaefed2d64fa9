/*
 * runner/serve/scope.h -- the scope of all calls under a run's token: the token names what it allows, so one serves them all.
 */
#pragma once

#define LEASED_SCOPE "run"
