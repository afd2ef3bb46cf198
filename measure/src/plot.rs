//! Drawing: line charts and bar charts as SVG.
//!
//! Text stays text, in the reader's own sans-serif font; its width is only
//! ever estimated. The canvas has twice the resolution that the picture is
//! shown at, because the library draws on whole units.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
pub use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::Axis;

/// The units of the canvas for each pixel of the picture.
const OVERSAMPLING: u32 = 2;
const PLOT_WIDTH: u32 = 1500;
const PLOT_HEIGHT: u32 = 1000;
/// The size of a plot that fits on a telephone, with the legend below.
const NARROW_WIDTH: u32 = 840;
const NARROW_HEIGHT: u32 = 760;
/// The height of a line of the legend, in units of the canvas.
const LEGEND_LINE: u32 = 52;

/// The colour of text, axes and what others are compared with.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xc8, 0xc8, 0xc8);
const LIGHT_GRID: RGBColor = RGBColor(0xec, 0xec, 0xec);

/// The size of a title, in units of the canvas; `TEXT_SIZE` is that of other text.
const TITLE_SIZE: f64 = 36.0;
const TEXT_SIZE: f64 = 28.0;
/// The average width of a character of sans-serif text, as a share of its size; on the wide side,
/// so that nothing runs into its neighbour.
const CHARACTER_WIDTH: f64 = 0.6;

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("could not draw `{title}`: {problem}")]
pub struct PlotError {
    title: String,
    problem: String,
}

/// The mark of a line's points, by which lines differ without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// The points have no mark: for bounds, which are no measurements.
    None,
    /// A circle that is filled.
    Circle,
    /// A square that is filled.
    Square,
    /// A triangle that is filled.
    Triangle,
    /// A filled square on its corner.
    Diamond,
}

/// The look of a system in every chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// The colour of line, marker and bar.
    pub colour: RGBColor,
    /// The lengths of dash and gap, in units of the canvas; `None` is a solid line.
    pub dash: Option<(u32, u32)>,
    /// The marker on some of the line's points.
    pub marker: Marker,
}

impl Style {
    /// Returns the style of a line, dashed or solid, with a marker or none.
    pub const fn new(colour: RGBColor, dash: Option<(u32, u32)>, marker: Marker) -> Self {
        Self {
            colour,
            dash,
            marker,
        }
    }

    /// Returns the style of line `index`: [`STYLES`] in turn, and dotted where they come round
    /// again.
    pub const fn of(index: usize) -> Self {
        let style = STYLES[index % STYLES.len()];
        if index < STYLES.len() {
            return style;
        }
        Self {
            dash: Some((4, 8)),
            ..style
        }
    }
}

/// The styles of lines: Okabe and Ito's colours, which differ for the colour-blind, with dashes and
/// markers, which make lines differ in grey.
pub const STYLES: [Style; 6] = [
    Style::new(RGBColor(0x00, 0x72, 0xb2), None, Marker::Square),
    Style::new(RGBColor(0xd5, 0x5e, 0x00), Some((26, 10)), Marker::Triangle),
    Style::new(RGBColor(0x00, 0x9e, 0x73), Some((12, 8)), Marker::Diamond),
    Style::new(RGBColor(0xcc, 0x79, 0xa7), Some((40, 8)), Marker::Circle),
    Style::new(RGBColor(0xe6, 0x9f, 0x00), Some((30, 8)), Marker::Square),
    Style::new(RGBColor(0x56, 0xb4, 0xe9), None, Marker::Triangle),
];

/// A line of a chart, with its points.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name of the line in the legend.
    pub name: String,
    /// The style of the line.
    pub style: Style,
    /// The points (x, y), in the axes' own values, by x.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines over two axes.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// The words above the chart.
    pub title: String,
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis along the left.
    pub y: Axis,
    /// The lines, drawn in order, the last on top.
    pub series: Vec<Series>,
}

/// A bar of a chart.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The name to the left of the bar.
    pub name: String,
    /// The style of the bar.
    pub style: Style,
    /// The length of the bar, in the axis's values.
    pub value: f64,
    /// The label to the right of the bar.
    pub label: String,
}

/// A chart of horizontal bars over one axis, and a line through them.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// The words above the chart.
    pub title: String,
    /// The axis along the bottom.
    pub x: Axis,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
    /// A value to compare with, and its name.
    pub line: Option<(f64, String)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Pixels = (i32, i32);
type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl LineChart {
    /// Draws the chart as SVG, with the legend to its right.
    ///
    /// # Errors
    /// If the library cannot draw it.
    pub fn svg(&self) -> Result<String, PlotError> {
        let names = self.series.iter().map(|series| series.name.as_str());
        let legend_width = 130 + names.map(text_width).max().unwrap_or(0);
        let width = PLOT_WIDTH + legend_width;
        picture(&self.title, width, PLOT_HEIGHT, |root| {
            let (plot, legend) = root.split_horizontally(PLOT_WIDTH);
            self.draw(&plot)?;
            self.draw_legend(&legend, 1, 130)
        })
    }

    /// Draws the chart as SVG that can be read on a telephone, with the legend below.
    ///
    /// # Errors
    /// If the library cannot draw it.
    pub fn narrow_svg(&self) -> Result<String, PlotError> {
        const COLUMNS: u32 = 2;
        let lines = u32::try_from(self.series.len()).unwrap_or(u32::MAX);
        let legend_height = LEGEND_LINE.saturating_mul(lines.div_ceil(COLUMNS) + 1);
        let height = NARROW_HEIGHT.saturating_add(legend_height);
        picture(&self.title, NARROW_WIDTH, height, |root| {
            let (plot, legend) = root.split_vertically(NARROW_HEIGHT);
            self.draw(&plot)?;
            self.draw_legend(&legend, COLUMNS, LEGEND_LINE)
        })
    }

    /// Draws axes and lines.
    fn draw(&self, plot: &Area<'_>) -> Result<(), AnyError> {
        let (x, y) = (&self.x, &self.y);
        let mut chart = ChartBuilder::on(plot)
            .margin(30)
            .margin_top(100)
            .x_label_area_size(100)
            .y_label_area_size(140)
            .build_cartesian_2d(x.clone(), y.clone())?;

        chart
            .configure_mesh()
            .bold_line_style(GRID.stroke_width(2))
            .light_line_style(LIGHT_GRID.stroke_width(2))
            .axis_style(INK.stroke_width(2))
            .label_style(font(TEXT_SIZE))
            .axis_desc_style(font(TEXT_SIZE))
            .x_desc(&x.title)
            .y_desc(&y.title)
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let finite = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
            let points = series.points.iter().filter(finite);
            let pixels: Vec<Pixels> = points.map(|point| chart.backend_coord(point)).collect();
            draw_line(plot, &pixels, series.style)?;
            for (x, y) in marked(&pixels, index, self.series.len()) {
                draw_marker(plot, x, y, series.style)?;
            }
        }
        Ok(())
    }

    /// Draws the names of the lines in `columns` columns, the first `top` units down.
    fn draw_legend(&self, legend: &Area<'_>, columns: u32, top: u32) -> Result<(), AnyError> {
        let (width, _) = legend.dim_in_pixel();
        let column_width = width / columns.max(1);
        let left = if columns > 1 { 40 } else { 0 };
        for (series, index) in self.series.iter().zip(0u32..) {
            let across = i32::try_from(left + index % columns * column_width)?;
            let middle = i32::try_from(top + LEGEND_LINE * (index / columns))?;
            draw_line(
                legend,
                &[(across, middle), (across + 90, middle)],
                series.style,
            )?;
            draw_marker(legend, across + 45, middle, series.style)?;
            let text = font(TEXT_SIZE).pos(Pos::new(HPos::Left, VPos::Center));
            legend.draw(&Text::new(
                series.name.clone(),
                (across + 104, middle),
                text,
            ))?;
        }
        Ok(())
    }
}

/// Returns the points of a line that get its marker: all of a few points; of many, some ten, at
/// other places than on the other lines.
fn marked(pixels: &[Pixels], index: usize, lines: usize) -> impl Iterator<Item = Pixels> {
    const MARKERS: usize = 10;
    let every = (pixels.len() / MARKERS).max(1);
    let first = every * index / lines.max(1);
    pixels.iter().copied().skip(first).step_by(every)
}

impl BarChart {
    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// If the library cannot draw it.
    pub fn svg(&self) -> Result<String, PlotError> {
        self.svg_of(PLOT_WIDTH)
    }

    /// Draws the chart as SVG that can be read on a telephone.
    ///
    /// # Errors
    /// If the library cannot draw it.
    pub fn narrow_svg(&self) -> Result<String, PlotError> {
        self.svg_of(NARROW_WIDTH)
    }

    fn svg_of(&self, width: u32) -> Result<String, PlotError> {
        const BAR_HEIGHT: u32 = 70;
        let bars = u32::try_from(self.bars.len()).unwrap_or(u32::MAX);
        let height = 300u32.saturating_add(bars.saturating_mul(BAR_HEIGHT));
        picture(&self.title, width, height, |root| self.draw(root))
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), AnyError> {
        // Beside the margins, an eighth of the picture is left to the bars at least.
        let (width, _) = root.dim_in_pixel();
        let room = (width - width / 8).saturating_sub(30 + 220 + 40);
        let fitted = self.bars.iter().map(|bar| fitting(&bar.name, room));
        let names: Vec<String> = fitted.collect();
        let names_width = names.iter().map(|name| text_width(name)).max();
        let x = &self.x;
        let places = 0.0..self.bars.len() as f64;
        let mut chart = ChartBuilder::on(root)
            .margin(30)
            .margin_top(140)
            .margin_right(220)
            .x_label_area_size(100)
            .y_label_area_size(40 + names_width.unwrap_or(0))
            .build_cartesian_2d(x.clone(), places)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(LIGHT_GRID.stroke_width(2))
            .light_line_style(TRANSPARENT)
            .axis_style(INK.stroke_width(2))
            .label_style(font(TEXT_SIZE))
            .axis_desc_style(font(TEXT_SIZE))
            .x_desc(&x.title)
            .y_labels(0)
            .draw()?;
        for ((bar, name), row) in self.bars.iter().zip(names).rev().zip(0u32..) {
            let row = f64::from(row);
            let value = if bar.value.is_finite() {
                bar.value
            } else {
                0.0
            };
            let low = chart.backend_coord(&(0.0, row + 0.18));
            let high = chart.backend_coord(&(value, row + 0.82));
            let middle = (low.1 + high.1) / 2;
            root.draw(&Rectangle::new([low, high], bar.style.colour.filled()))?;
            let right = font(TEXT_SIZE).pos(Pos::new(HPos::Right, VPos::Center));
            root.draw(&Text::new(name, (low.0 - 16, middle), right))?;
            let left = font(TEXT_SIZE).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(bar.label.clone(), (high.0 + 14, middle), left))?;
        }
        if let Some((value, name)) = &self.line {
            let bottom = chart.backend_coord(&(*value, 0.0));
            let top = chart.backend_coord(&(*value, self.bars.len() as f64));
            let style = Style {
                colour: INK,
                dash: Some((12, 8)),
                marker: Marker::None,
            };
            let ends = [bottom, (top.0, top.1 - 10)];
            // On a bar of its own colour it would not show.
            root.draw(&PathElement::new(ends, WHITE.stroke_width(11)))?;
            draw_line(root, &ends, style)?;
            let above = font(TEXT_SIZE).pos(Pos::new(HPos::Left, VPos::Bottom));
            root.draw(&Text::new(name.clone(), (top.0 - 4, top.1 - 16), above))?;
        }
        Ok(())
    }
}

fn draw_line(area: &Area<'_>, pixels: &[Pixels], style: Style) -> Result<(), AnyError> {
    let stroke = style.colour.stroke_width(5);
    match style.dash {
        None => area.draw(&PathElement::new(pixels.to_vec(), stroke))?,
        Some((dash, gap)) => {
            area.draw(&DashedPathElement::new(
                pixels.iter().copied(),
                dash,
                gap,
                stroke,
            ))?;
        }
    }
    Ok(())
}

fn draw_marker(area: &Area<'_>, x: i32, y: i32, style: Style) -> Result<(), AnyError> {
    let fill = style.colour.filled();
    match style.marker {
        Marker::None => {}
        Marker::Circle => area.draw(&Circle::new((x, y), 10, fill))?,
        Marker::Square => area.draw(&Rectangle::new([(x - 9, y - 9), (x + 9, y + 9)], fill))?,
        Marker::Triangle => {
            let corners = [(x - 11, y + 9), (x + 11, y + 9), (x, y - 12)];
            area.draw(&Polygon::new(corners, fill))?;
        }
        Marker::Diamond => {
            let corners = [(x - 12, y), (x, y - 12), (x + 12, y), (x, y + 12)];
            area.draw(&Polygon::new(corners, fill))?;
        }
    }
    Ok(())
}

/// Returns the style of text of `size` units. The library takes the height of a line, which is 1.24
/// of the font's size.
fn font(size: f64) -> TextStyle<'static> {
    (FontFamily::SansSerif, size * 1.24).into_font().color(&INK)
}

fn text_width(text: &str) -> u32 {
    (text.chars().count() as f64 * TEXT_SIZE * CHARACTER_WIDTH) as u32
}

/// Returns a name, or as much of its beginning as fits into `room` units.
fn fitting(name: &str, room: u32) -> String {
    if text_width(name) <= room {
        return name.to_owned();
    }
    let letters = (f64::from(room) / (TEXT_SIZE * CHARACTER_WIDTH)) as usize;
    let kept = name.chars().take(letters.saturating_sub(1));
    kept.chain(['~']).collect()
}

/// Draws a picture with a title, on white, and returns it as SVG.
fn picture(
    title: &str,
    width: u32,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), AnyError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    let drawn = || -> Result<(), AnyError> {
        let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let bold = font(TITLE_SIZE).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(title.to_owned(), (40, 50), bold))?;
        draw(&root)?;
        root.present()?;
        Ok(())
    }();
    let error = |problem: String| PlotError {
        title: title.to_owned(),
        problem,
    };
    drawn.map_err(|problem| error(problem.to_string()))?;
    let (_, body) = svg
        .split_once('>')
        .ok_or_else(|| error("no SVG came out".to_owned()))?;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\">{body}",
        width / OVERSAMPLING,
        height / OVERSAMPLING
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_leave_room_for_the_bars() {
        let bar = |name: &str| Bar {
            name: name.to_owned(),
            style: STYLES[0],
            value: 2.0,
            label: "2 ms".to_owned(),
        };
        let long = "{name: bands, cutoffs: [1KB, 4KB, 16KB, 64KB, 256KB, 1MB, 4MB, 16MB, 64MB]}";
        let chart = BarChart {
            title: "Means".to_owned(),
            x: Axis::from_zero("ms", [2.0].into_iter()),
            bars: vec![bar("fair"), bar(long)],
            line: None,
        };
        for svg in [chart.svg().unwrap(), chart.narrow_svg().unwrap()] {
            assert!(svg.contains("{name: bands") && !svg.contains(long), "{svg}");
            assert!(svg.contains("fair"), "{svg}");
        }
        assert_eq!(fitting("fair", 68), "fair");
        assert_eq!(fitting("srpt-aged", 68), "srp~");
    }
}
