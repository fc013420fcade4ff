//! Forward pass of a deployed network: `make bench`, or with `GPARA_BENCH_MODEL=FILE.onnx` for another one.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gpara::{Channel, Context, Grid, MeanPredictor, Observations, SeedTree, ValidMask};
use gpara::{Denoiser, DenoiserInput};
use gpara_nn::{MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL, Network, OnnxDenoiser, OnnxMean, Role};

/// Timed runs after one to warm up.
const RUNS: usize = 15;

fn model() -> PathBuf {
    if let Some(path) = std::env::var_os("GPARA_BENCH_MODEL") {
        return path.into();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let mut models: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    models.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    models.into_iter().min().expect("a model in models/")
}

/// One forward of `batch` images, whatever the role of the network.
fn forward(network: &Arc<Network>, context: &Context, batch: usize) -> Vec<f64> {
    let observations = Observations::none(context.grid());
    if network.card().role == Role::Mean {
        let mean = OnnxMean::new(Arc::clone(network)).unwrap();
        return (0..batch).flat_map(|_| mean.predict(context, &observations).unwrap()).collect();
    }
    let mut noisy = vec![0.0; batch * context.grid().num_nodes()];
    SeedTree::new(1).stream("noisy").fill_normal(&mut noisy);
    let mut clean = vec![0.0; noisy.len()];
    let input = DenoiserInput { noisy: &noisy, timestep: 500, context, observations: &observations };
    OnnxDenoiser::new(Arc::clone(network)).unwrap().clean_estimates(input, &mut clean).unwrap();
    clean
}

#[test]
#[ignore = "a benchmark: make bench"]
fn bench_forward_pass() {
    let path = model();
    let mut rows = String::from("model,threads,batch,median_ms,lower_quartile_ms,upper_quartile_ms\n");
    let mut reference: Option<Vec<f64>> = None;
    for (threads, batch) in [(1, 1), (2, 1), (2, 2)] {
        let network = Arc::new(Network::from_file(&path, threads).unwrap());
        network.verify().unwrap();
        let card = network.card();
        let grid = Grid::new(card.grid[0], card.grid[1]).unwrap();
        let own = |name: &&String| ![MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL].contains(&name.as_str());
        let channels = card.channels.iter().filter(own).map(|name| {
            let mut stream = SeedTree::new(1).stream(name);
            Channel { name: name.clone(), values: (0..grid.num_nodes()).map(|_| stream.uniform() as f32).collect() }
        });
        let context = Context::new(ValidMask::all(grid), channels.collect()).unwrap();
        let first = forward(&network, &context, batch)[..grid.num_nodes()].to_vec();
        assert!(*reference.get_or_insert_with(|| first.clone()) == first, "{threads} threads give other bits");
        let mut times: Vec<f64> = (0..RUNS)
            .map(|_| {
                let begin = Instant::now();
                forward(&network, &context, batch);
                begin.elapsed().as_secs_f64() * 1e3 / batch as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let [low, median, high] = [1, 2, 3].map(|quarter| times[quarter * (RUNS - 1) / 4]);
        let name = &card.name;
        println!(
            "{name} {grid}, rten, {threads} threads, {batch} at once: {median:.0} ms an image ({low:.0} to {high:.0})"
        );
        writeln!(rows, "{},{threads},{batch},{median:.2},{low:.2},{high:.2}", path.display()).unwrap();
    }
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("forward_rten.csv"), rows).unwrap();
}
