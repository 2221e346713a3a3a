-- The tables of a database of finished jobs, see database.py.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    conditions TEXT NOT NULL,
    job TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    seconds REAL, draws REAL, spent REAL, epsilon_delta REAL, weight REAL, alpha REAL, sigma REAL,
    UNIQUE (key, conditions)
);

-- rewards holds little-endian doubles: the reward of a run up to each of curve_episodes.
CREATE TABLE runs (
    job INTEGER NOT NULL REFERENCES jobs (id),
    run INTEGER NOT NULL,
    total_reward REAL NOT NULL,
    final_value REAL NOT NULL,
    rewards BLOB NOT NULL,
    PRIMARY KEY (job, run)
);

CREATE VIEW results AS SELECT
    json_extract(jobs.job, '$.env') AS env,
    json_extract(jobs.job, '$.method.label') AS method,
    json_extract(jobs.job, '$.relation') AS relation,
    json_extract(jobs.job, '$.order') AS "order",
    json_extract(jobs.job, '$.epsilon') AS epsilon,
    json_extract(jobs.job, '$.delta') AS delta,
    json_extract(jobs.job, '$.episodes') AS episodes,
    json_extract(jobs.job, '$.horizon') AS horizon,
    json_extract(jobs.job, '$.seed') AS seed,
    jobs.seconds, jobs.draws, jobs.spent, jobs.epsilon_delta, jobs.weight, jobs.alpha, jobs.sigma,
    runs.run, runs.total_reward, runs.final_value
FROM jobs JOIN runs ON runs.job = jobs.id
